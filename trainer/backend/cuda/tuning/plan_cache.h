#ifndef MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_CACHE_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_CACHE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "readers/cache_folder.h"
#include "trainer/backend/cuda/tuning/plan_book.h"

namespace millrace::trainer::cuda {

// The file of the plans that were chosen on one kind of device, in the folder of files that can be
// made again. Immutable, and safe between processes.
class PlanCache {
 public:
  // `folder` is readers::CacheFolder's, `key` Device::PlansKey.
  PlanCache(const std::string& folder, const std::string& key);

  // The plans that are kept; an empty book if there is no file, or no folder.
  //   DATA_LOSS  the file has none; the text names it
  absl::StatusOr<PlanBook> Load() const;
  // Keeps the plans of `book` and those that are in the file. A file that has none is replaced.
  //   FAILED_PRECONDITION  there is no folder
  //   other                the file cannot be written; the text names it
  absl::Status Store(const PlanBook& book) const;

  const std::string& path() const { return path_; }

 private:
  const std::string key_;
  const readers::CacheFolder folder_;
  const std::string path_;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_TUNING_PLAN_CACHE_H_
