#include "capi/plan/plan.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/call/guard.h"
#include "pipeline/plan_view.h"

namespace millrace::capi {
namespace {

absl::StatusOr<pipeline::Variables> VariablesOf(const char* call, const char* const* names,
                                                const char* const* values, size_t count) {
  pipeline::Variables variables;
  if (count == 0) return variables;
  MILLRACE_RETURN_IF_ERROR(
      CheckGiven(call, {{"names", names != nullptr}, {"values", values != nullptr}}));
  for (size_t i = 0; i < count; ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"a name of names", names[i] != nullptr},
                                               {"a value of values", values[i] != nullptr}}));
    if (variables.emplace(names[i], values[i]).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": the variable ", names[i], " is given twice"));
  }
  return variables;
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_plan_from_file(const char* path, const char* const* names, const char* const* values,
                            size_t num_variables, mr_plan** plan) {
  return capi::Guard([&]() -> absl::Status {
    constexpr const char* kCall = "mr_plan_from_file";
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven(kCall, {{"path", path != nullptr}, {"plan", plan != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::Variables variables,
                              capi::VariablesOf(kCall, names, values, num_variables));
    MILLRACE_ASSIGN_OR_RETURN(pipeline::Plan read, pipeline::Plan::FromFile(path, variables));
    *plan = new mr_plan{std::move(read)};
    return absl::OkStatus();
  });
}

mr_error* mr_plan_from_text(const char* text, size_t size, const char* origin,
                            const char* const* names, const char* const* values,
                            size_t num_variables, mr_plan** plan) {
  return capi::Guard([&]() -> absl::Status {
    constexpr const char* kCall = "mr_plan_from_text";
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        kCall,
        {{"text", text != nullptr}, {"origin", origin != nullptr}, {"plan", plan != nullptr}}));
    MILLRACE_ASSIGN_OR_RETURN(const pipeline::Variables variables,
                              capi::VariablesOf(kCall, names, values, num_variables));
    MILLRACE_ASSIGN_OR_RETURN(pipeline::Plan read,
                              pipeline::Plan::FromText({text, size}, origin, variables));
    *plan = new mr_plan{std::move(read)};
    return absl::OkStatus();
  });
}

mr_error* mr_plan_text(const mr_plan* plan, mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_plan_text", {{"plan", plan != nullptr}, {"sink", sink != nullptr}}));
    capi::Pour(plan->plan.ToText(), sink, user);
    return absl::OkStatus();
  });
}

uint64_t mr_plan_fingerprint(const mr_plan* plan) {
  uint64_t fingerprint = 0;
  mr_error_free(capi::Guard([&]() -> absl::Status {
    if (plan != nullptr) fingerprint = plan->plan.Fingerprint();
    return absl::OkStatus();
  }));
  return fingerprint;
}

mr_error* mr_plan_stages(const mr_plan* plan, void (*visit)(void* user, const mr_stage* stage),
                         void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_plan_stages", {{"plan", plan != nullptr}, {"visit", visit != nullptr}}));
    for (const pipeline::StageView& stage : pipeline::StagesOf(plan->plan)) {
      const mr_stage shown = {sizeof shown, stage.name.c_str(), stage.op.c_str(),
                              stage.options.c_str()};
      visit(user, &shown);
    }
    return absl::OkStatus();
  });
}

void mr_plan_free(mr_plan* plan) { delete plan; }
