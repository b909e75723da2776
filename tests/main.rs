//! The one integration target: one program to link, one module per subject.

mod cli;
mod house;
mod kill;
mod need;
mod support;
