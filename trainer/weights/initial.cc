#include "trainer/weights/initial.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/job/bad_field.h"
#include "trainer/weights/exchange.h"

namespace millrace::trainer {

absl::Status SetInitialTensors(const JobFile& job, const Model& model, bool reads_file,
                               TensorSet& weights, TensorSet& buffers) {
  weights = MakeInitialWeights(model, job.job.seed());
  buffers = MakeInitialBuffers(model);
  if (!reads_file || job.init_path.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(TensorFile file, ReadForeignSafetensors(job.init_path));
  const auto& fields = job.job.init_from().except();
  const std::vector<std::string> except(fields.begin(), fields.end());
  if (const auto i = FirstWithoutMatch(file, model, except)) {
    return ErrorAt(
        job.places,
        {{{"init_from"}, {"except", static_cast<int>(*i)}},
         absl::StrCat("'", except[*i], "' matches no tensor of the model or of ", job.init_path)});
  }
  return TakeWeights(job.init_path, std::move(file), model, except, weights, buffers);
}

}  // namespace millrace::trainer
