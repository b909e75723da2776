//! `htmlreport`.
