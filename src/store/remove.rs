//! Removing a stored plan with all that hangs on it.

use super::Store;
use super::error::StoreError;
use super::write::{Lock, atomically};

impl Store {
    /// Removes a plan, its runs, tags and notes. The file keeps its size: what is stored next
    /// takes the space.
    pub fn remove(&mut self, id: &str) -> Result<(), StoreError> {
        self.current = None;
        let done = atomically(&self.conn, Lock::Database, |conn| {
            let plan = self.plan_number(conn, id)?;
            // Runs first: for each cell and environment the rest would be searched for runs.
            conn.execute("DELETE FROM run WHERE plan = ?1", [plan])?;
            conn.execute("DELETE FROM plan WHERE plan = ?1", [plan])?;
            Ok(())
        });
        done.map_err(|fault| fault.at(format!("remove plan `{id}`"), &self.path))?;
        self.committed()
    }
}
