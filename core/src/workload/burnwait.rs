//! `burnwait`: queues of burn and wait, after gwd/schedbench.
//!
//! An item burns CPU for a fixed number of operations and is due again a fixed time after
//! the *end* of its burn: a worker that is preempted in mid-burn starts the next one later, and
//! throughput shows it. A worker with several items runs the one that is due earliest, one at a
//! time; many short items hide a delay that one long item cannot hide. [`Queue`] is pure.

use crate::model::{Field, Kind, Params, Value};
use crate::sys::clock;

use super::burn::{Burner, Speed, Work};
use super::queue::{Item, parse_queue};
use super::{Latency, Load, Request, Role, Spec, Worker, Workload, WorkloadError, params};

pub struct Burnwait;

const WAKEUP: usize = 0;

const SPEC: Spec = Spec {
    name: "burnwait",
    about: "burns CPU for a fixed amount of work, waits from the end of the burn, again",
    params: &[Field::new("queue", Kind::List(&Kind::Text))
        .about(
            "items of each worker: \"burn TIME\" (CPU time at full speed) or \"burn N\" \
                 (thousand read-modify-write operations over 64 KiB), each followed by its \
                 \"wait TIME\"; several share the worker",
        )
        .default("burn 70, wait 200us")],
    roles: &[Role { name: "burnwait", counts: true }],
    ops: "kops",
    histograms: &[Latency::headline(
        "wakeup",
        "from an item's time to its start, where the worker slept until that time",
    )],
    ..Spec::PLAIN
};

impl Workload for Burnwait {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        items(request.params)?;
        Ok(vec![0; request.count as usize])
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        Ok(Box::new(Set { items: items(request.params)?, speed: request.speed }))
    }

    fn can_rest(&self, _params: &Params) -> bool {
        true
    }

    fn is_timed(&self, params: &Params) -> bool {
        items(params).is_ok_and(|items| items.iter().any(|item| matches!(item.work, Work::Ns(_))))
    }

    fn is_counted(&self, params: &Params) -> bool {
        items(params).is_ok_and(|items| items.iter().any(|item| item.work.is_counted()))
    }

    fn max_samples_per_s(&self, request: &Request) -> Option<f64> {
        let workers = u64::from(request.count);
        let items = items(request.params).ok()?;
        let per_s = |item: &Item| request.max_per_s(workers, item.work.ns(), item.wait_ns);
        items.iter().map(per_s).sum()
    }

    fn ops(&self, params: &Params) -> &'static str {
        if self.is_timed(params) { "us of work" } else { SPEC.ops }
    }
}

fn items(params: &Params) -> Result<Vec<Item>, WorkloadError> {
    let list = params::value(params, "queue", Value::as_list)?;
    let steps: Vec<&str> = list
        .iter()
        .filter_map(Value::as_text)
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect();
    Ok(parse_queue(&steps)?)
}

/// A worker's next act.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Start this item, whose time was `delay_ns` ago.
    Burn { item: usize, work: Work, delay_ns: u64 },
    /// Nothing is due before this moment.
    SleepUntil { due_ns: u64 },
}

/// The items, and when each is due.
struct Queue {
    entries: Vec<(Item, u64)>,
}

impl Queue {
    fn new(items: &[Item]) -> Self {
        Queue { entries: items.iter().map(|&item| (item, 0)).collect() }
    }

    /// All items are first due at `first_ns`; those due at one moment go in the order given.
    fn begin(&mut self, first_ns: u64) {
        self.entries.iter_mut().for_each(|(_, due_ns)| *due_ns = first_ns);
    }

    #[inline]
    fn next(&self, now_ns: u64) -> Next {
        let mut item = 0;
        for (index, (_, due_ns)) in self.entries.iter().enumerate() {
            if *due_ns < self.entries[item].1 {
                item = index;
            }
        }
        let (Item { work, .. }, due_ns) = self.entries[item];
        match now_ns.checked_sub(due_ns) {
            Some(delay_ns) => Next::Burn { item, work, delay_ns },
            None => Next::SleepUntil { due_ns },
        }
    }

    /// The wait counts from here.
    #[inline]
    fn finished(&mut self, item: usize, end_ns: u64) {
        let (Item { wait_ns, .. }, due_ns) = &mut self.entries[item];
        *due_ns = end_ns + *wait_ns;
    }
}

struct Set {
    items: Vec<Item>,
    speed: Speed,
}

impl Load for Set {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut burner = Burner::new(self.speed);
        let mut queue = Queue::new(&self.items);
        // Equal workers that all start at the barrier would move in step without end.
        let longest_wait_ns = self.items.iter().map(|item| item.wait_ns).max().unwrap_or(0);
        let phase_ns = worker.phase_ns(longest_wait_ns);
        queue.begin(worker.start() + phase_ns);
        let mut slept = false;
        while worker.running() {
            let now_ns = clock::monotonic_ns();
            match queue.next(now_ns) {
                Next::SleepUntil { due_ns } => {
                    worker.begin(WAKEUP, due_ns);
                    clock::sleep_until(due_ns);
                    slept = true;
                }
                Next::Burn { item, work, delay_ns } => {
                    // It was due while its set had fewer workers.
                    let delay_ns = delay_ns.min(now_ns.saturating_sub(worker.rest_ended_ns()));
                    worker.note_delay(delay_ns);
                    if slept {
                        worker.record(WAKEUP, now_ns, delay_ns);
                    }
                    burner.burn_counted(work, |done| worker.add_ops(done));
                    queue.finished(item, clock::monotonic_ns());
                    slept = false;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Raw;
    use crate::workload::Slot;
    use crate::workload::testing::{WorkerGroup, params};
    use proptest::prelude::*;

    const US: u64 = 1_000;

    fn item(kops: u64, wait_us: u64) -> Item {
        Item { work: Work::Kops(kops), wait_ns: wait_us * US }
    }

    #[test]
    fn a_preemption_in_mid_burn_moves_the_next_start_by_as_much() {
        // The worked example of the original's README: burns of 100 us, waits of 100 us.
        let burn = |delay_ns| Next::Burn { item: 0, work: Work::Kops(100), delay_ns };
        let mut calm = Queue::new(&[item(100, 100)]);
        assert_eq!(calm.next(0), burn(0));
        calm.finished(0, 100 * US);
        assert_eq!(calm.next(100 * US), Next::SleepUntil { due_ns: 200 * US });
        assert_eq!(calm.next(200 * US), burn(0));
        calm.finished(0, 300 * US);
        assert_eq!(calm.next(300 * US), Next::SleepUntil { due_ns: 400 * US });

        // Preempted for 100 us after 50: the burn ends at 200, the next starts at 300.
        let mut disturbed = Queue::new(&[item(100, 100)]);
        assert_eq!(disturbed.next(0), burn(0));
        disturbed.finished(0, 200 * US);
        assert_eq!(disturbed.next(200 * US), Next::SleepUntil { due_ns: 300 * US });
        assert_eq!(disturbed.next(300 * US), burn(0));
    }

    #[test]
    fn a_preemption_between_clock_and_sleep_does_not_stretch_the_wait() {
        let mut queue = Queue::new(&[item(1, 100)]);
        queue.finished(0, 50 * US);
        let asleep = Next::SleepUntil { due_ns: 150 * US };
        assert_eq!(queue.next(50 * US), asleep);
        assert_eq!(queue.next(149 * US), asleep, "a moment, not a length of time");
        assert_eq!(
            queue.next(180 * US),
            Next::Burn { item: 0, work: Work::Kops(1), delay_ns: 30 * US }
        );
    }

    #[test]
    fn the_earliest_due_item_goes_first_and_a_delay_of_one_leaves_the_others_alone() {
        let mut queue = Queue::new(&[item(10, 300), item(20, 50), item(30, 300)]);
        queue.begin(7);
        let started = |queue: &mut Queue, now_ns, end_ns| {
            let Next::Burn { item, delay_ns, .. } = queue.next(now_ns) else { panic!("not due") };
            queue.finished(item, end_ns);
            (item, delay_ns)
        };
        assert_eq!(queue.next(6), Next::SleepUntil { due_ns: 7 });
        assert_eq!(started(&mut queue, 7, 10 * US), (0, 0), "due 310");
        assert_eq!(started(&mut queue, 10 * US, 30 * US), (1, 10 * US - 7), "due 80");
        assert_eq!(started(&mut queue, 30 * US, 90 * US), (2, 30 * US - 7), "due 390");
        assert_eq!(started(&mut queue, 90 * US, 100 * US), (1, 10 * US), "due 150");
        assert_eq!(queue.next(100 * US), Next::SleepUntil { due_ns: 150 * US });
        assert_eq!(started(&mut queue, 150 * US, 320 * US), (1, 0), "due 370, preempted");
        assert_eq!(started(&mut queue, 320 * US, 330 * US), (0, 10 * US), "its own 310");
        assert_eq!(queue.next(330 * US), Next::SleepUntil { due_ns: 370 * US });
    }

    #[test]
    fn steps_of_a_list_and_of_one_text_are_the_same_queue() {
        let texts =
            |list: &[&str]| Raw::List(list.iter().map(|t| Raw::Text(t.to_string())).collect());
        let read = |raw: Raw| items(&params(&Burnwait, &[("queue", raw)])).unwrap();
        let expected = vec![item(10, 300), item(20, 300)];
        assert_eq!(read(texts(&["burn 10", "wait 300us", "burn 20", "wait 300us"])), expected);
        assert_eq!(read(Raw::Text("burn 10, wait 300us,burn 20, wait 300us".into())), expected);
    }

    #[test]
    fn a_worker_that_need_not_sleep_records_no_wakeup_and_one_that_must_does() {
        let queue = |text: &str| params(&Burnwait, &[("queue", Raw::Text(text.into()))]);
        // Sleeps until its phase is over, unless it starts later, and never again: one item is always
        // due.
        let busy = WorkerGroup::start(&Burnwait, &queue("burn 1, wait 0ns, burn 1, wait 5ms"), 1);
        let wakeups_after = |ops: u64| {
            busy.wait_until("kops", |group| group.slots()[0].ops() >= ops);
            busy.measured().histograms[WAKEUP].total()
        };
        let at_its_phase = wakeups_after(1);
        assert!(at_its_phase <= 1, "{at_its_phase}");
        assert_eq!(wakeups_after(100), at_its_phase);
        busy.stop();
        let idle = WorkerGroup::start(&Burnwait, &queue("burn 5, wait 100us"), 2);
        idle.wait_until("wakeups", |group| group.measured().histograms[WAKEUP].total() >= 10);
        idle.stop();
        // Read in the order in which the worker does not write, so that a burn in progress
        // cannot make either bound false.
        let wakeups = idle.measured().histograms[WAKEUP].clone();
        let starts = idle.measured().ops / 5 + 2;
        assert!(wakeups.total() <= starts, "{} wakeups of {starts} starts", wakeups.total());
        let peak_ns = idle.slots().iter().map(Slot::take_peak_ns).max();
        assert!(peak_ns >= wakeups.max_ns(), "{peak_ns:?} {:?}", wakeups.max_ns());
    }

    proptest! {
        /// Any queue on any machine: never early, never two at once, none forgotten.
        #[test]
        fn items_start_in_due_order_and_never_before_their_time(
            items in proptest::collection::vec((1u64..100, 0u64..1_000), 1..8),
            stalls in proptest::collection::vec(0u64..500, 50..200),
        ) {
            let items: Vec<Item> = items.iter().map(|&(kops, wait)| item(kops, wait)).collect();
            let mut queue = Queue::new(&items);
            let mut due = vec![0u64; items.len()];
            let mut now_ns = 0;
            for stall_us in stalls {
                let earliest = due.iter().copied().min().unwrap();
                match queue.next(now_ns) {
                    Next::SleepUntil { due_ns } => {
                        prop_assert!(due_ns == earliest && due_ns > now_ns);
                        now_ns = due_ns + stall_us * US;
                    }
                    Next::Burn { item, work, delay_ns } => {
                        let Work::Kops(kops) = work else { panic!("no time was given") };
                        prop_assert_eq!(due[item], earliest);
                        prop_assert_eq!(now_ns, due[item] + delay_ns);
                        now_ns += (kops + stall_us) * US;
                        queue.finished(item, now_ns);
                        due[item] = now_ns + items[item].wait_ns;
                    }
                }
            }
        }
    }
}
