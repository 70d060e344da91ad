#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "pipeline/text_proto.h"
#include "trainer/backend/backend.h"
#include "trainer/explain.h"
#include "trainer/explain/layer_table.h"
#include "trainer/explain/model_dot.h"
#include "trainer/explain/model_sizes.h"
#include "trainer/model/model.h"
#include "trainer/report.h"

namespace millrace::trainer {
namespace {

struct LoadedModel {
  Model model;
  bool has_loss = true;
};

// A model without a loss is a generator's.
absl::StatusOr<LoadedModel> LoadAlone(const ExplainOptions& options) {
  std::set<std::string> used;
  auto model = LoadModel(options.job_path, options.variables, used, ModelEnd::kLosses);
  LoadedModel loaded;
  if (model.ok()) {
    loaded.model = *std::move(model);
  } else {
    auto generator = LoadModel(options.job_path, options.variables, used, ModelEnd::kOutput);
    if (!generator.ok()) return model.status();
    loaded = {*std::move(generator), false};
  }
  MILLRACE_RETURN_IF_ERROR(pipeline::CheckVariablesUsed(options.variables, used));
  return loaded;
}

}  // namespace

absl::StatusOr<std::string> ExplainModel(const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadAlone(options));
  const Model& model = loaded.model;
  if (options.as_dot) return ModelDot(model);
  std::vector<std::string> lines = {
      absl::StrCat("model ", options.job_path,
                   loaded.has_loss ? "" : ", without a loss: the generator of an adversarial job"),
      ""};
  for (const auto& part :
       {LayerTable(model, OneDnnFusedInto(model)), FormatTable(ModelSizes(model, /*batch=*/0))}) {
    lines.insert(lines.end(), part.begin(), part.end());
    lines.emplace_back();
  }
  lines.pop_back();
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace millrace::trainer
