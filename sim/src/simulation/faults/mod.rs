//! Events of faults.
//!
//! | file | handles |
//! |---|---|
//! | `armed` | planned faults that wait for their operation |
//! | `strike` | faults that strike and end |
//! | `bit_flips` | bits that flip in files |

mod armed;
mod bit_flips;
mod strike;
