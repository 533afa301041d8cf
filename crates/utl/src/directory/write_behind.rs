//! A disk that changes files behind its caller, in a thread of its own.
//!
//! Making a data directory is work for the processor (records are decoded, values summed) and for the disk. In turns,
//! each waits for the other. Here the caller goes on while its changes are carried out in the order it made them:
//!
//! ```text
//! caller    create A  write A  sync A  rename A  create B  write B ...   goes on at once, at most MAX_WAITING ahead
//! thread              create A  write A     sync A     rename A ...
//! caller    read A, list, exists, lock                                   waits for all changes before it
//! finish                                                                 waits for all, and says what failed
//! ```
//!
//! A sync that returned has not happened yet. So this is for files that mean nothing before a later step, which comes
//! after [`WriteBehindDisk::finish`]; a member, which acknowledges what it has synced, must not use it. After a power
//! loss the files are as they could be without this disk, because no change overtakes another. Once a change has
//! failed, those behind it are left out, and later calls return its error.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use log::{Disk, File, LockError, LockGuard};

/// Changes that wait. The large ones are writes of a megabyte, so this is also the memory that they take, in MiB.
const MAX_WAITING: usize = 16;

/// A disk whose changes are carried out behind the caller.
pub(crate) struct WriteBehindDisk {
    disk: Arc<dyn Disk>,
    queue: Queue,
}

type QueuedChange = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// The changes that wait.
#[derive(Clone)]
struct Queue {
    changes: SyncSender<QueuedChange>,
    /// Of the first change that failed.
    failure: Arc<OnceLock<io::Error>>,
}

/// A file whose changes are carried out behind the caller.
struct WriteBehindFile {
    path: PathBuf,
    /// Empty until the file is created.
    file: Arc<OnceLock<Arc<dyn File>>>,
    queue: Queue,
}

impl WriteBehindDisk {
    /// Begins to write to `disk` in a thread.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> io::Result<WriteBehindDisk> {
        let (changes, waiting) = sync_channel(MAX_WAITING);
        let queue = Queue { changes, failure: Arc::default() };
        let failure = queue.failure.clone();
        let thread = std::thread::Builder::new().name("stele-writes".to_owned());
        thread.spawn(move || carry_out(&waiting, &failure))?;
        Ok(WriteBehindDisk { disk, queue })
    }

    /// Waits until all changes so far are carried out.
    ///
    /// # Errors
    /// That of the first change that failed.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.queue.wait()
    }

    /// Leaves out the changes that wait, and returns when none is carried out any more.
    pub(crate) fn give_up(&self) {
        let _ = self.queue.failure.set(io::Error::new(io::ErrorKind::Interrupted, "given up"));
        let _ = self.queue.wait();
    }

    /// Adds a change of names.
    fn change_names(
        &self,
        action: &'static str,
        path: &Path,
        change: impl FnOnce(&dyn Disk, &Path) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let disk = self.disk.clone();
        self.queue.push(action, path, move |path| change(&*disk, path))
    }
}

/// Carries out changes until no disk and no file is left to add any.
fn carry_out(changes: &Receiver<QueuedChange>, failure: &OnceLock<io::Error>) {
    for change in changes {
        // The first failure stays; a change that is left out is dropped, so a caller that waits for it goes on.
        if failure.get().is_none()
            && let Err(error) = change()
        {
            let _ = failure.set(error);
        }
    }
}

impl Queue {
    /// Adds a change of `path`; `action` is what its error says.
    fn push(
        &self,
        action: &'static str,
        path: &Path,
        change: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let path = path.to_owned();
        self.add(Box::new(move || {
            let failed = |error: io::Error| {
                io::Error::new(error.kind(), format!("cannot {action} {} before it: {error}", path.display()))
            };
            change(&path).map_err(failed)
        }))
    }

    fn add(&self, change: QueuedChange) -> io::Result<()> {
        match self.failure.get() {
            Some(_) => Err(self.failed()),
            None => self.changes.send(change).map_err(|_| self.failed()),
        }
    }

    /// Waits until all changes so far are carried out.
    fn wait(&self) -> io::Result<()> {
        let (done, is_done) = sync_channel(1);
        let sent = self.changes.send(Box::new(move || {
            let _ = done.send(());
            Ok(())
        }));
        sent.map_err(|_| self.failed())?;
        is_done.recv().map_err(|_| self.failed())
    }

    fn failed(&self) -> io::Error {
        match self.failure.get() {
            Some(error) => io::Error::new(error.kind(), error.to_string()),
            None => io::Error::new(io::ErrorKind::BrokenPipe, "the thread that writes has ended"),
        }
    }
}

impl Disk for WriteBehindDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.queue.wait()?;
        let file = Arc::new(OnceLock::from(self.disk.open(path)?));
        Ok(Arc::new(WriteBehindFile { path: path.to_owned(), file, queue: self.queue.clone() }))
    }

    /// An existing file is an error of the next calls.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(OnceLock::new());
        let created = file.clone();
        self.change_names("create", path, move |disk, path| {
            let _ = created.set(disk.create_new(path)?);
            Ok(())
        })?;
        Ok(Arc::new(WriteBehindFile { path: path.to_owned(), file, queue: self.queue.clone() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.queue.wait()?;
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.queue.wait()?;
        self.disk.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_owned();
        self.change_names("rename", from, move |disk, from| disk.rename(from, &to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change_names("remove", path, |disk, path| disk.remove(path))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.change_names("create", dir, |disk, dir| disk.create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change_names("sync", dir, |disk, dir| disk.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.queue.wait()?;
        self.disk.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.queue.wait()?;
        self.disk.free_bytes(dir)
    }
}

impl WriteBehindFile {
    /// The file, after all changes so far.
    fn now(&self) -> io::Result<&dyn File> {
        self.queue.wait()?;
        self.file.get().map(|file| &**file).ok_or_else(|| self.queue.failed())
    }

    /// Adds a change of the file.
    fn change(
        &self,
        action: &'static str,
        change: impl FnOnce(&dyn File) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let file = self.file.clone();
        self.queue.push(action, &self.path, move |_| match file.get() {
            Some(file) => change(&**file),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}

impl File for WriteBehindFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.now()?.read_at(buffer, offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
        buffers.iter().for_each(|buffer| bytes.extend_from_slice(buffer));
        self.change("write", move |file| file.write_at(&[IoSlice::new(&bytes)], offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change("sync", |file| file.sync_data())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.change("write", move |file| file.allocate(length))
    }

    fn length(&self) -> io::Result<u64> {
        self.now()?.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change("write", move |file| file.set_length(length))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TrySendError;

    use log::MemDisk;

    use super::*;

    /// A disk over one in memory, with an empty directory.
    fn bench() -> (MemDisk, &'static Path, WriteBehindDisk) {
        let (mem, dir) = (MemDisk::new(), Path::new("/d"));
        let disk = WriteBehindDisk::new(Arc::new(mem.clone())).expect("a thread");
        disk.create_dir_all(dir).expect("it is made");
        (mem, dir, disk)
    }

    fn write(file: &dyn File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_at(&[IoSlice::new(bytes)], offset)
    }

    #[test]
    fn what_is_read_is_what_was_written_before() {
        let (mem, dir, disk) = bench();
        let file = disk.create_new(&dir.join("a.new")).expect("it is created");
        file.write_at(&[IoSlice::new(b"one "), IoSlice::new(b"two")], 0).expect("it is written");
        let mut read = [0; 7];
        assert_eq!((file.read_at(&mut read, 0).ok(), &read), (Some(7), b"one two"));
        write(&*file, b"ten", 4).expect("it is written");
        file.sync_data().expect("it is synced");
        disk.rename(&dir.join("a.new"), &dir.join("a")).expect("it is renamed");
        disk.sync_dir(dir).expect("it is synced");
        assert_eq!(disk.list(dir).ok(), Some(vec!["a".to_owned()]));
        assert_eq!(disk.open(&dir.join("a")).and_then(|file| file.length()).ok(), Some(7));
        let after = mem.lose_power(&mut |_| 0);
        let file = after.open(&dir.join("a")).expect("its name was synced");
        assert_eq!((file.read_at(&mut read, 0).ok(), &read), (Some(7), b"one ten"), "so were its bytes");
    }

    #[test]
    fn the_first_failure_is_that_of_all_later_calls() {
        let (mem, dir, disk) = bench();
        let file = disk.create_new(&dir.join("a.new")).expect("it is created");
        disk.finish().expect("nothing has failed");
        mem.set_capacity(Some(100));
        // Whether these notice it depends on how far the thread is.
        let _ = write(&*file, &[1; 200], 0);
        let _ = file.sync_data();
        let _ = disk.rename(&dir.join("a.new"), &dir.join("a"));
        let error = disk.finish().expect_err("the write failed");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("cannot write /d/a.new before it: "), "{error}");
        let late = disk.create_new(&dir.join("b")).err().expect("nothing more is written");
        assert_eq!(late.kind(), io::ErrorKind::StorageFull);
        assert!(file.read_at(&mut [0], 0).is_err() && disk.exists(dir).is_err());
        assert_eq!(mem.list(dir).ok(), Some(vec!["a.new".to_owned()]), "the rename behind it was left out");
    }

    /// Keeps the thread in a change until the other end is dropped; returns when it is there.
    fn hold(disk: &WriteBehindDisk) -> SyncSender<()> {
        let (begun, has_begun) = sync_channel(1);
        let (release, released) = sync_channel::<()>(1);
        let held = move || {
            let _ = begun.send(());
            let _ = released.recv();
            Ok(())
        };
        disk.queue.add(Box::new(held)).expect("the thread runs");
        has_begun.recv().expect("the change is carried out");
        release
    }

    #[test]
    fn the_caller_is_a_bounded_number_of_changes_ahead() {
        let (mem, dir, disk) = bench();
        let held = hold(&disk);
        for number in 0..MAX_WAITING {
            disk.create_new(&dir.join(number.to_string())).expect("there is room");
        }
        assert_eq!(mem.list(dir).ok(), Some(vec![]), "none of them is carried out yet");
        let one_more = disk.queue.changes.try_send(Box::new(|| Ok(())));
        assert!(matches!(one_more, Err(TrySendError::Full(_))));
        drop(held);
        disk.finish().expect("nothing has failed");
        assert_eq!(mem.list(dir).map(|names| names.len()).ok(), Some(MAX_WAITING));
    }

    #[test]
    fn what_waits_is_left_out_when_it_is_given_up() {
        let (mem, dir, disk) = bench();
        let held = hold(&disk);
        disk.create_new(&dir.join("a")).expect("there is room");
        std::thread::scope(|scope| {
            let given_up = scope.spawn(|| disk.give_up());
            // Waits until the failure stands, without which the change would be carried out.
            disk.queue.failure.wait();
            drop(held);
            given_up.join().expect("nothing is carried out any more");
        });
        assert_eq!(mem.list(dir).ok(), Some(vec![]));
    }
}
