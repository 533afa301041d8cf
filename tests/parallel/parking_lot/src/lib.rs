//! Stands in for the crate of this name: as much of it as the product uses, over shuttle's locks.
//!
//! A wait with a timeout never times out here, so that a lost wake-up is a deadlock, which shuttle reports.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use shuttle::sync;

/// Mutual exclusion.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A held [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect("no thread panicked with the lock held")))
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard is empty only while it waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard is empty only while it waits")
    }
}

/// Many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

/// A [`RwLock`] held for reading.
pub type RwLockReadGuard<'a, T> = sync::RwLockReadGuard<'a, T>;
/// A [`RwLock`] held for writing.
pub type RwLockWriteGuard<'a, T> = sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits until it may read.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect("no thread panicked with the lock held")
    }

    /// Waits until it may write.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect("no thread panicked with the lock held")
    }
}

/// A condition to wait for.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// Whether a wait timed out: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    /// Never here.
    pub fn timed_out(self) -> bool {
        false
    }
}

impl Condvar {
    /// A condition without waiters.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits to be woken.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("a guard waits once at a time");
        guard.0 = Some(self.0.wait(held).expect("no thread panicked with the lock held"));
    }

    /// Waits while `condition` holds.
    pub fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits to be woken, however long it takes.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Waits to be woken, whenever that is.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }
}
