//! Removing stored plans and scores with all that hangs on them, damaged ones too.

use rusqlite::Connection;

use super::Store;
use super::column::numbered;
use super::error::{Fault, StoreError};
use super::score;
use super::seal;
use super::stream;
use super::write::{Lock, atomically};

/// A plan or a score that is damaged: no more is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    pub id: String,
    pub is_plan: bool,
    /// Its number in the tables.
    pub number: i64,
}

impl Store {
    /// Plans, and then scores, that are left out where all are listed.
    pub fn damaged(&self) -> Result<Vec<Damaged>, StoreError> {
        let read = |conn: &Connection| -> Result<_, Fault> {
            let plans: Vec<String> = self.plan_heads()?.into_iter().map(|head| head.id).collect();
            let scores = self.score_heads()?.into_iter().map(|head| head.id).collect();
            let mut damaged = Vec::new();
            for (is_plan, sql, sound) in [(true, stream::ALL, plans), (false, score::ALL, scores)] {
                let all = numbered(conn, sql)?.into_iter();
                let lost = all.filter(|(_, id)| !sound.contains(id));
                damaged.extend(lost.map(|(number, id)| Damaged { id, is_plan, number }));
            }
            Ok(damaged)
        };
        self.snapshot(read).map_err(|fault| fault.at("list what is damaged", &self.path))
    }

    /// Removes a plan, its runs, tags and notes. The file keeps its size: what is stored next
    /// takes the space.
    pub fn remove(&mut self, id: &str) -> Result<(), StoreError> {
        self.remove_with(format!("remove plan `{id}`"), |store, conn| {
            remove_plan(conn, store.plan_number(conn, id)?)
        })
    }

    /// Removes a score, its tags and notes.
    pub fn remove_score(&mut self, id: &str) -> Result<(), StoreError> {
        self.remove_with(format!("remove score `{id}`"), |store, conn| {
            remove_score(conn, store.score_number(conn, id)?)
        })
    }

    pub fn remove_damaged(&mut self, damaged: &Damaged) -> Result<(), StoreError> {
        let Damaged { id, is_plan, number } = damaged;
        self.remove_with(format!("remove `{id}`"), |_, conn| {
            if *is_plan { remove_plan(conn, *number) } else { remove_score(conn, *number) }
        })
    }

    /// Plans and scores that are gone are missed no more; returns how many these are.
    pub fn forget_missing(&mut self) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        self.remove_with("forget what is gone".to_string(), |_, conn| {
            forgotten = seal::forget_missing(conn, "plan")? + seal::forget_missing(conn, "score")?;
            Ok(())
        })?;
        Ok(forgotten)
    }

    fn remove_with(
        &mut self,
        action: String,
        remove: impl FnOnce(&Store, &Connection) -> Result<(), Fault>,
    ) -> Result<(), StoreError> {
        self.current = None;
        let done = atomically(&self.conn, Lock::Database, |conn| remove(self, conn));
        done.map_err(|fault| fault.at(action, &self.path))?;
        self.committed()
    }
}

fn remove_plan(conn: &Connection, plan: i64) -> Result<(), Fault> {
    // Runs first: for each cell and environment the rest would be searched for runs.
    conn.execute("DELETE FROM run WHERE plan = ?1", [plan])?;
    conn.execute("DELETE FROM plan WHERE plan = ?1", [plan])?;
    Ok(())
}

fn remove_score(conn: &Connection, score: i64) -> Result<(), Fault> {
    conn.execute("DELETE FROM score WHERE score = ?1", [score])?;
    Ok(())
}
