//! schedlab: a laboratory for CPU schedulers. The rooms are told in CONTRIBUTING.md.

pub mod model;
