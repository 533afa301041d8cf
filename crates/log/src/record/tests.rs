//! Bodies that check, but that no log writes.

use super::Opening;
use crate::types::MAX_INDEX;

#[test]
fn an_opening_behind_the_last_index_of_all_is_none() {
    let opening = Opening { first_index: 8, previous_index: 7, previous_term: 2, ..Opening::default() };
    assert_eq!(Opening::decode(&opening.encode()), Some(opening));
    let last = Opening { previous_index: MAX_INDEX, ..opening };
    assert_eq!(Opening::decode(&last.encode()), Some(last));
    let behind = Opening { previous_index: MAX_INDEX + 1, ..opening };
    assert_eq!(Opening::decode(&behind.encode()), None);
    assert_eq!(Opening::decode(&opening.encode()[1..]), None);
}
