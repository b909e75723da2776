//! How long the workers of a role rest at the end of its order, where its threads were not there. Pure.

use std::collections::BTreeSet;

use super::{InOrder, LONG_PARTS, REST_PARTS, Scene};

impl Scene {
    /// By role how long each worker rests in the order: else what was seen once would come again at once. `None`: it has a timer,
    /// it was hardly away, or it waits for others, of which one rests.
    pub(super) fn rests_ns(&self, order: &InOrder) -> Vec<Option<u64>> {
        let is_all = order.window == (self.from_ns, self.to_ns);
        let mut waits = vec![(0, 0); self.names.len()];
        let mut edges: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (number, piece) in self.threads.pieces.iter().enumerate().filter(|own| order.has[own.0])
        {
            let waker = piece.by.filter(|by| self.is_edge_here(order, *by, number));
            let (taken, all) = &mut waits[piece.role];
            *taken += usize::from(waker.is_some());
            *all += 1;
            edges.extend(waker.map(|by| (self.threads.pieces[by].role, piece.role)));
        }
        let has_timer = |role: usize| self.threads.timer_ns(role, self.to_ns).is_some();
        let rest_ns = |(role, (taken, all)): (usize, &(usize, usize))| {
            let count = u64::from(self.threads.count(role).max(1));
            let ns = self.threads.absence_ns(role, self.from_ns, self.to_ns) / count;
            let is_long = ns >= self.wall_ns() / REST_PARTS;
            (is_long && !has_timer(role) && (is_all || order.is_rare[role]) && 2 * taken <= *all)
                .then_some(ns)
        };
        let mut rests_ns: Vec<Option<u64>> = waits.iter().enumerate().map(rest_ns).collect();
        while let Some(role) = self.endless(&edges, &rests_ns, &waits).filter(|_| is_all) {
            rests_ns[role] = Some(self.pause_ns(role));
        }
        rests_ns
    }

    /// The role that does most of those that wake each other in a circle in which nobody rests, although it paused.
    fn endless(
        &self,
        edges: &BTreeSet<(usize, usize)>,
        rests_ns: &[Option<u64>],
        waits: &[(usize, usize)],
    ) -> Option<usize> {
        let is_paused = |role: &usize| {
            rests_ns[*role].is_none() && self.pause_ns(*role) >= self.wall_ns() / LONG_PARTS
        };
        let is_in_circle = |role: &usize| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![*role]);
            while let Some(by) = next.pop() {
                let woken = edges.range((by, 0)..=(by, usize::MAX)).map(|(_, woken)| *woken);
                next.extend(
                    woken.filter(|woken| rests_ns[*woken].is_none() && reached.insert(*woken)),
                );
            }
            reached.contains(role)
        };
        let roles = (0..self.names.len()).filter(is_paused).filter(is_in_circle);
        roles.max_by_key(|role| waits[*role].1)
    }

    /// The time before the first work of a role and after its last.
    pub(super) fn pause_ns(&self, role: usize) -> u64 {
        self.wall_ns() - self.threads.there_ns(role, self.to_ns).min(self.wall_ns())
    }

    /// Whether a role pauses in its replay, too: it rests, or waits for others that do.
    pub(super) fn keeps_pause(&self, role: usize, window: (u64, u64)) -> bool {
        window == (self.from_ns, self.to_ns) && self.threads.timer_ns(role, self.to_ns).is_none()
    }
}
