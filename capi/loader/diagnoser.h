#ifndef MILLRACE_CAPI_LOADER_DIAGNOSER_H_
#define MILLRACE_CAPI_LOADER_DIAGNOSER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/context.h"
#include "capi/millrace_diagnosis.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "pipeline/stretch.h"

namespace millrace::capi {

// The measurements of a loader or a feed, for its diagnosis. They begin when it is made.
class Diagnoser {
 public:
  // `stream` was opened so, and outlives it, as does `feed`, the one over it; null: there is none.
  // `is_lent` is true if the program gave the context.
  Diagnoser(const pipeline::Plan& plan, const pipeline::OpenOptions& opened,
            std::shared_ptr<Context> context, bool is_lent, const pipeline::Pipeline& stream,
            const pipeline::DeviceFeed* feed = nullptr);

  // Begins the measurements anew.
  //   FAILED_PRECONDITION  in a forked child
  absl::Status Begin();
  // The same behind a move of the stream, which has returned `moved`. Returns it, if it is an
  // error.
  absl::Status BeginBehind(absl::Status moved);
  // Calls `visit` with the diagnosis.
  //   INVALID_ARGUMENT     the struct is not valid
  //   FAILED_PRECONDITION  in a forked child
  absl::Status Show(const mr_diagnosis_options* given,
                    void (*visit)(void* user, const mr_diagnosis* diagnosis), void* user) const;

 private:
  // The setting that limits the workers: of the loader, its plan, its context, or two of them.
  std::string SettingOfThreads(const mr_diagnosis_options& names) const;

  std::shared_ptr<Context> context_;
  bool is_lent_;
  int cpu_budget_;    // most workers, as the loader's options say; 0: they do not
  int plan_threads_;  // the same of its plan
  pipeline::DiagnosisOptions options_;
  pipeline::Stretch stretch_;
};

}  // namespace millrace::capi

#endif  // MILLRACE_CAPI_LOADER_DIAGNOSER_H_
