//! Why a plan cannot run, or cannot continue, on a cluster.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::backend::BackendError;
use crate::model::clean;
use crate::model::{Advice, clean_path};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum FleetError {
    #[error("--fleet slurm: there is no `{0}` on the PATH")]
    NotInstalled(&'static str),
    /// In the program's own words, escaped.
    #[error("Slurm does not take the job: {words}")]
    Refused { words: String },
    #[error("Slurm does not answer: {words}")]
    Silent { words: String },
    #[error("cannot start {program}: {source}")]
    Start { program: &'static str, source: io::Error },
    #[error("cannot {action} {}: {source}", clean_path(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "the folder {} cannot be that of a fleet: sbatch reads `%`, `\\` and control characters in paths as something else",
        clean_path(path)
    )]
    Folder { path: PathBuf },
    #[error("schedlab sets sbatch's option {option} itself")]
    OwnOption { option: String },
    #[error("`{word}` is not an option of sbatch")]
    NoOption { word: String },
    #[error("`{word}` names nodes in a form that is not read here")]
    NodeList { word: String },
    /// `of`: with a space before it.
    #[error("Slurm has no node{of} that takes jobs")]
    NoHosts { of: String },
    #[error("sbatch has submitted nothing{words}")]
    NoJob { words: String },
    #[error("{id} is not a fleet whose hosts are to be measured: there is no {}", clean_path(path))]
    NoFleet { id: String, path: PathBuf },
    #[error("{} cannot be understood: {}", clean_path(path), clean(&source.to_string()))]
    Rubbish { path: PathBuf, source: serde_json::Error },
    #[error("the folder of the fleet is gone: {}", clean_path(path))]
    FolderGone { path: PathBuf },
    #[error("cannot encode what nodes are sent: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("{0}")]
    Task(String),
    /// Each with the places of both.
    #[error(
        "two nodes gave different answers for the same run, which must be equal to the last bit: {}",
        pairs.join("; ")
    )]
    Differ { pairs: Vec<String>, folder: PathBuf },
}

impl FleetError {
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FleetError {
        let path = path.to_path_buf();
        move |source| FleetError::Io { action, path, source }
    }
}

impl From<FleetError> for BackendError {
    fn from(error: FleetError) -> Self {
        BackendError::own(error)
    }
}

impl Advice for FleetError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::NotInstalled(_) => {
                "call schedlab where jobs are submitted from, or: apt-get install slurm-client"
            }
            Self::Refused { words } => refused(words),
            Self::NoJob { .. } => "sbatch --help names options that only ask",
            Self::NoFleet { id, .. } => {
                let command = format!("schedlab compare tag=fleet-{id} --over hosts");
                return Some(format!("one that has ended: {command}").into());
            }
            Self::FolderGone { .. } => {
                "make sure that all nodes have it: schedlab run --resume last --fleet slurm"
            }
            Self::NodeList { .. } => "-- --nodelist=n[1-20]",
            Self::NoHosts { .. } => "sinfo shows partitions, nodes and their states",
            Self::Silent { .. } => "scontrol ping",
            Self::Folder { .. } => "--fleet slurm,folder=DIR",
            Self::OwnOption { .. } | Self::NoOption { .. } => {
                "schedlab run PLAN --backend lab --fleet slurm -- --time=1:00:00"
            }
            Self::Differ { folder, .. } => {
                return Some(
                    format!("both answers are kept: ls {}/answers", folder.display()).into(),
                );
            }
            Self::Rubbish { .. }
            | Self::Start { .. }
            | Self::Io { .. }
            | Self::Encode(_)
            | Self::Task(_) => return None,
        }))
    }

    fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::OwnOption { .. }
                | Self::NoOption { .. }
                | Self::NodeList { .. }
                | Self::Folder { .. }
        )
    }
}

/// Advice after Slurm refused with these words.
fn refused(words: &str) -> &'static str {
    let lower = words.to_lowercase();
    let is_about = |word: &str| lower.contains(word);
    if is_about("partition") || is_about("account") {
        "sinfo shows the partitions, `sacctmgr show user -s $USER` the accounts"
    } else if is_about("node") {
        "sinfo --Node shows the nodes; with exclusive, name those to use: -- --nodelist=n[1-20]"
    } else if is_about("controller") || is_about("config") || is_about("resolve") {
        "scontrol ping; SLURM_CONF names Slurm's configuration"
    } else {
        "man sbatch"
    }
}
