#include "pipeline/stages/cut_ops.h"
#include "pipeline/stages/row.h"

// Maps of the host program's, and one that does nothing.

namespace millrace::pipeline {
namespace {

using proto::Stage;

OpOptions ReadIdentity(const Stage&) { return IdentityOptions{}; }
OpFields NoFields(const OpOptions&) { return {}; }
absl::StatusOr<std::unique_ptr<Op>> MakeNothing(const OpOptions&, const std::string&) {
  return MakeIdentity();
}

void FillCustom(proto::Custom* custom) {
  if (custom->version() == 0) custom->set_version(1);
}

absl::Status CheckCustom(const OptionsChecker& check, const proto::Custom& custom) {
  return custom.op().empty() ? check.Error("op", " is empty; name the op as it is registered")
                             : absl::OkStatus();
}

OpOptions ReadCustom(const Stage& stage) {
  const proto::Custom& custom = stage.custom();
  return CustomOptions{stage.name(), custom.op(), custom.version(), custom.options()};
}

std::string NameOfCustom(const OpOptions& options) { return std::get<CustomOptions>(options).op; }
OpFields AnyFields(const OpOptions&) { return {{}, {}, {}, true}; }

constexpr OpRow kIdentityOp = {
    .index = IndexOf<IdentityOptions>(), .fields = NoFields, .make = MakeNothing};
constexpr OpRow kCustomOp = {
    .index = IndexOf<CustomOptions>(), .name = NameOfCustom, .fields = AnyFields};

constexpr StageRow kOtherRows[] = {
    {.op_case = Stage::kIdentity,
     .name = "identity",
     .doc = "Does nothing.",
     .read = ReadIdentity,
     .op = &kIdentityOp},
    {.op_case = Stage::kCustom,
     .name = "custom",
     .doc = "An op of the host program; behind the batch it works on whole batches.",
     .options = {{"op", "its name, as registered", kRequired},
                 {"version", ""},
                 {"options", "handed to the op as it stands", R"(`""`)"}},
     .fill = Fill<&Stage::mutable_custom, FillCustom>,
     .check = Check<&Stage::custom, CheckCustom>,
     .read = ReadCustom,
     .op = &kCustomOp},
};

}  // namespace

constinit const StageFamily kOtherStages = {"other", "Your own", kOtherRows};

}  // namespace millrace::pipeline
