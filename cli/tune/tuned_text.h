#ifndef MILLRACE_CLI_TUNE_TUNED_TEXT_H_
#define MILLRACE_CLI_TUNE_TUNED_TEXT_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/edit_text.h"
#include "pipeline/plan.h"

// The files that `millrace tune` reads and writes.

namespace millrace::cli {

struct TunedText {
  std::string file;
  std::string out;  // the file to write; empty: none
  bool overwrite = false;
};

// Reads a plan or a job.
absl::StatusOr<std::string> ReadText(const std::string& file);

// Checks that the file to write is not there, unless it may be replaced. Of no file to write all
// checks are OK.
//   ALREADY_EXISTS  it is there
absl::Status CheckFree(const TunedText& tuned);
// Checks that `edited`, as the file that it is to be, is `plan` with other performance, and that a
// file can be made there.
//   FAILED_PRECONDITION  its names of files would be relative to another folder
absl::Status CheckPlanFits(const TunedText& tuned, const pipeline::Plan& plan,
                           const pipeline::EditedText& edited);
// The same of a job, whose names of files are relative to its folder in any case.
absl::Status CheckJobFits(const TunedText& tuned);

// Writes `text`, all of it or nothing.
absl::Status WriteText(const TunedText& tuned, const std::string& text);

// The name of `file` in the text of a file in the folder of `beside`.
std::string NameBeside(const std::string& beside, const std::string& file);

// The variables that the text of a file names.
absl::StatusOr<pipeline::Variables> NamedIn(const std::string& file,
                                            const pipeline::Variables& variables);
// The variables whose values are not those that were given.
std::map<std::string, std::string> ChangedOf(const pipeline::Variables& given,
                                             const pipeline::Variables& now);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_TUNED_TEXT_H_
