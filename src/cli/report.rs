//! `schedlab report`: what is stored, in any format.

use clap::Args;

use super::judging::{self, Judging, Output};
use super::{Database, Failure, SelectionParser};

#[derive(Args)]
pub struct ReportArgs {
    /// Stored plans: `last`, `last:N`, `all`, the beginning of an id, or terms with commas
    /// between: tag=NAME, since=7d, backend=lab
    #[arg(default_value = "last", value_parser = SelectionParser, hide_possible_values = true)]
    select: String,
    #[command(flatten)]
    judging: Judging,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let select = std::slice::from_ref(&args.select);
    let sides = args.db.select("", select, &heads)?;
    let (mut analyses, mut plans) = (Vec::new(), Vec::new());
    for (side, id) in sides.iter().flat_map(|side| side.plans.iter().map(move |id| (side, id))) {
        let Some(head) = heads.iter().find(|head| head.id == *id) else { continue };
        let (analysis, sampled) =
            judging::analyse_plan(&store, (side, head), &args.judging, &args.output, &args.db)?;
        analyses.push(analysis);
        plans.extend(sampled);
    }
    args.output.write(&args.judging, &store, &mut analyses, &plans)
}
