#ifndef MILLRACE_CLI_COMMANDS_COMMAND_H_
#define MILLRACE_CLI_COMMANDS_COMMAND_H_

#include "cli/flags/command_line.h"
#include "cli/program.h"

// The `millrace` command: one file per subcommand. Each Add function adds its subcommand, with its
// flags and its action, to `parent`.

namespace millrace::cli {

void AddConvert(Command parent);
void AddInspect(Command parent);
void AddIndex(Command parent);
void AddVerify(Command parent);
void AddRepair(Command parent);
void AddCat(Command parent);
void AddSplit(Command parent);
void AddMerge(Command parent);
void AddSample(Command parent);
void AddExplain(Command parent, const JobExplainer& jobs);
// `serve` is for its metrics; null: the program has no server.
void AddRun(Command parent, MetricsServing serve);
void AddShow(Command parent);
void AddTop(Command parent);
// `open_job` may be null.
void AddTune(Command parent, const JobExplainer& jobs, JobOpener open_job);
void AddAudit(Command parent);
void AddDoctor(Command parent);
void AddBench(Command parent);
void AddTrain(Command parent);
void AddModel(Command parent);
void AddWeights(Command parent);
void AddEval(Command parent);
void AddPredict(Command parent);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_COMMANDS_COMMAND_H_
