//! Eras end when their pins are gone.

use super::Pins;

#[test]
fn an_era_is_over_when_it_and_all_before_it_are_unpinned() {
    let pins = Pins::default();
    assert!(!pins.is_over(0), "the current era goes on");
    let first = pins.pin();
    let ended = pins.end_era();
    assert_eq!(first, ended);
    let second = pins.pin();
    let also_ended = pins.end_era();
    assert!(!pins.is_over(ended) && !pins.is_over(also_ended));
    pins.unpin(second);
    assert!(!pins.is_over(also_ended), "an earlier pin may hold the same reference");
    pins.unpin(first);
    assert!(pins.is_over(ended) && pins.is_over(also_ended));
}

#[test]
fn an_era_nobody_pinned_is_over_at_once() {
    let pins = Pins::default();
    let ended = pins.end_era();
    assert!(pins.is_over(ended));
    let later = pins.pin();
    assert!(later > ended && pins.is_over(ended));
}
