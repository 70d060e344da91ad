#ifndef MILLRACE_CLI_TUNE_TARGET_H_
#define MILLRACE_CLI_TUNE_TARGET_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/context.h"
#include "cli/tune/setting.h"
#include "pipeline/diagnosis.h"
#include "pipeline/edit_text.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

// The things that `millrace tune` measures: the pipeline of a plan alone, or the training of a job.

namespace millrace::cli {

// A stream of samples under settings that change. Thread-compatible.
class TuneTarget {
 public:
  virtual ~TuneTarget() = default;

  // Opens it under these settings, where it stopped under others. Progress is shown while files are
  // indexed.
  //   errors  those of MakeContext and Pipeline::Open; it is closed then
  virtual absl::Status Open(const Settings& settings) = 0;
  // Goes on by a batch or a step and returns its samples; nullopt: the end was reached, and the
  // next call begins at the start. REQUIRES: it is open.
  //   errors  those of the stream; NOT_FOUND: it has no sample
  virtual absl::StatusOr<std::optional<int64_t>> Next() = 0;

  // The pipeline and the context that are open, until Open or Next.
  virtual pipeline::Pipeline& pipeline() = 0;
  virtual Context& context() = 0;
  virtual pipeline::DiagnosisOptions diagnosis_options() const = 0;
  // The threads where settings say no number.
  virtual int default_threads() const = 0;
};

// The training of a job on one rank, which leaves no file and no checkpoint.
class TunedJob : public TuneTarget {
 public:
  virtual const std::string& plan_path() const = 0;
  virtual const pipeline::Plan& plan() const = 0;
  // The settings that the job says, else its plan.
  virtual const Settings& settings() const = 0;
  // The threads that no setting changes, since results depend on their number.
  virtual int compute_threads() const = 0;
  // Returns the text of the job with changes of the fields of JobFieldOf; `title` as in
  // pipeline::EditFields.
  virtual absl::StatusOr<pipeline::EditedText> Edit(const std::string& text,
                                                    const pipeline::Variables& variables,
                                                    std::span<const pipeline::FieldChange> changes,
                                                    const std::string& title) const = 0;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_TARGET_H_
