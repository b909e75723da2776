//! Sends answers to the cache, one after the other, in a separate thread: no run waits for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sys::lock;

use super::action::{self, Named};
use super::client::{Client, HttpFault, Kind};

/// Answers that wait to be sent; more are not sent.
const MAX_WAITING: usize = 256;
/// Time limit of one request; a server that does not take an entry in this time gets no more.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Sender {
    client: Arc<Client>,
    /// The thread's queue, once there was something to send.
    queue: Mutex<Option<SyncSender<Answer>>>,
    progress: Arc<Progress>,
}

struct Answer {
    key: String,
    named: Named,
    packed: Vec<u8>,
}

#[derive(Default)]
struct Progress {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    given: u64,
    done: u64,
    /// Given answers that were sent or given up.
    ended: u64,
    is_stopped: bool,
    refused: Option<String>,
}

/// The result at the end.
pub struct Sent {
    pub done: u64,
    pub left: u64,
    /// Why the server takes nothing.
    pub refused: Option<String>,
}

impl Sender {
    pub fn new(client: Arc<Client>) -> Sender {
        Sender { client, queue: Mutex::default(), progress: Arc::default() }
    }

    pub fn send(&self, key: String, named: Named, packed: Vec<u8>) {
        let mut counts = self.progress.counts();
        if counts.is_stopped {
            return;
        }
        let mut queue = lock(&self.queue);
        let queue = queue.get_or_insert_with(|| self.start());
        counts.given += 1;
        if queue.try_send(Answer { key, named, packed }).is_err() {
            counts.ended += 1;
        }
    }

    fn start(&self) -> SyncSender<Answer> {
        let (queue, answers) = sync_channel(MAX_WAITING);
        let (client, progress) = (Arc::clone(&self.client), Arc::clone(&self.progress));
        std::thread::spawn(move || send_all(&client, &progress, &answers));
        queue
    }

    /// Drops the answers that still wait.
    pub fn stop(&self) {
        self.progress.counts().is_stopped = true;
        self.progress.changed.notify_all();
    }

    /// Waits until all answers are sent, but not longer than `patience`.
    pub fn end(&self, patience: Duration) -> Sent {
        let deadline = Instant::now() + patience;
        let mut counts = self.progress.counts();
        while counts.ended < counts.given && !counts.is_stopped {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.progress.changed.wait_timeout(counts, left);
            counts = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(counts, _)| counts);
        }
        counts.is_stopped = true;
        let left = counts.given - counts.done;
        Sent { done: counts.done, left, refused: counts.refused.clone() }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Progress {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        lock(&self.counts)
    }
}

fn send_all(client: &Client, progress: &Progress, answers: &Receiver<Answer>) {
    for answer in answers {
        if progress.counts().is_stopped {
            return;
        }
        let sent = send(client, &answer);
        let mut counts = progress.counts();
        counts.ended += 1;
        match sent {
            Ok(()) => counts.done += 1,
            Err(why) => {
                counts.refused = Some(why.to_string());
                counts.is_stopped = true;
            }
        }
        progress.changed.notify_all();
    }
}

/// Sends the content first, so that nobody finds a name without its content.
fn send(client: &Client, Answer { key, named, packed }: &Answer) -> Result<(), HttpFault> {
    client.put(Kind::Content, &named.sha256, packed, PATIENCE)?;
    client.put(Kind::Action, key, &action::encode(named), PATIENCE)
}
