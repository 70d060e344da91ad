#include "pipeline/op_table.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "pipeline/stages/apply_caught.h"

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxNameBytes = 64;

// Calls user code; the INTERNAL error of an exception names the op and what was called.
template <typename Result, typename Body>
Result Guard(const std::string& op, std::string_view what, const Body& body) {
  std::optional<Result> result;
  const absl::Status thrown = Caught([&] { result.emplace(body()); });
  if (thrown.ok()) return *std::move(result);
  return Result(
      absl::InternalError(absl::StrCat("op \"", op, "\", ", ToAbsl(what), ": ", thrown.message())));
}

// An op of the host program. An exception of it becomes the error of its row; out of a run of
// several rows it is let through, for the executor works on each row by itself then.
class GuardedOp final : public Op {
 public:
  GuardedOp(std::string name, std::unique_ptr<Op> op)
      : name_(std::move(name)), op_(std::move(op)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    return Guard<absl::StatusOr<Schema>>(name_, "Resolve", [&] { return op_->Resolve(input); });
  }
  void Apply(Run& run) const override { ApplyAlone(*op_, run); }
  int64_t preferred_rows() const override { return op_->preferred_rows(); }

 private:
  const std::string name_;
  const std::unique_ptr<Op> op_;
};

class GuardedBatchOp final : public BatchOp {
 public:
  GuardedBatchOp(std::string name, std::unique_ptr<BatchOp> op)
      : name_(std::move(name)), op_(std::move(op)) {}

  absl::StatusOr<Schema> Resolve(const Schema& batch_schema) override {
    MILLRACE_ASSIGN_OR_RETURN(const Schema output,
                              Guard<absl::StatusOr<Schema>>(
                                  name_, "Resolve", [&] { return op_->Resolve(batch_schema); }));
    if (output.fields() == batch_schema.fields()) return output;
    return absl::InvalidArgumentError(absl::StrCat("op \"", name_, "\" changes the fields of a ",
                                                   "batch (", batch_schema.ToString(), ") to (",
                                                   output.ToString(), "); it may change values"));
  }
  absl::Status Apply(BatchView& batch) const override { return ApplyCaught(*op_, batch); }
  uint64_t group_rows() const override { return op_->group_rows(); }

 private:
  const std::string name_;
  const std::unique_ptr<BatchOp> op_;
};

// Runs a factory and puts its op under guard.
template <typename Interface, typename Guarded, typename Factory>
absl::StatusOr<std::unique_ptr<Interface>> MakeGuarded(std::string_view name,
                                                       const Factory& factory, const OpArgs& args) {
  using Result = absl::StatusOr<std::unique_ptr<Interface>>;
  Result op = Guard<Result>(std::string(name), "factory", [&] { return factory(args); });
  if (!op.ok()) return op.status();
  if (*op == nullptr) {
    return absl::InternalError(absl::StrCat("op \"", ToAbsl(name), "\": the factory made nothing"));
  }
  return std::make_unique<Guarded>(std::string(name), *std::move(op));
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./").find(c) != std::string_view::npos;
  });
}

absl::Status WrongKind(std::string_view name, std::string_view is, std::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("op \"", ToAbsl(name), "\" works on ", ToAbsl(is),
                                                 "; here stands one that works on ",
                                                 ToAbsl(wanted)));
}

// Makes an op by `make`, which calls `function`, of a stage without options.
template <typename Make, typename Function>
OpTable::Factory FactoryOf(const Make& make, SampleOpSpec spec, Function function) {
  return [&make, spec = std::move(spec), function = std::move(function)](
             const OpArgs& args) -> absl::StatusOr<std::unique_ptr<Op>> {
    if (!args.options.empty()) return absl::InvalidArgumentError("the op takes no options");
    SampleOpSpec named = spec;
    named.stage = args.stage;
    return make(std::move(named), function);
  };
}

}  // namespace

absl::Status OpTable::Add(std::string_view name, uint32_t version, Entry entry) {
  const std::string what = absl::StrCat("op \"", ToAbsl(name.substr(0, 2 * kMaxNameBytes)), "\"");
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": a name has 1 to 64 letters, digits, '_', '-', '.', '/'"));
  }
  if (version == 0) return absl::InvalidArgumentError(what + ": versions begin with 1");
  if (!entry.sample && !entry.batch) return absl::InvalidArgumentError(what + " has no factory");
  if (entries_.try_emplace({std::string(name), version}, std::move(entry)).second) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat(what, ", version ", version, " is registered already"));
}

absl::Status OpTable::Register(std::string_view name, uint32_t version, Factory factory) {
  return Add(name, version, {.sample = std::move(factory), .batch = {}});
}

absl::Status OpTable::RegisterBatch(std::string_view name, uint32_t version, BatchFactory factory) {
  return Add(name, version, {.sample = {}, .batch = std::move(factory)});
}

absl::Status OpTable::RegisterSample(std::string_view name, uint32_t version, SampleOpSpec spec,
                                     SampleFunction function) {
  MILLRACE_RETURN_IF_ERROR(MakeSampleOp(spec, function).status());
  return Register(name, version, FactoryOf(MakeSampleOp, std::move(spec), std::move(function)));
}

absl::Status OpTable::RegisterRun(std::string_view name, uint32_t version, SampleOpSpec spec,
                                  RunFunction function) {
  MILLRACE_RETURN_IF_ERROR(MakeRunOp(spec, function).status());
  return Register(name, version, FactoryOf(MakeRunOp, std::move(spec), std::move(function)));
}

OpTable::Kind OpTable::KindOf(std::string_view name, uint32_t version) const {
  const auto it = entries_.find({std::string(name), version});
  if (it == entries_.end()) return Kind::kNone;
  return it->second.sample ? Kind::kSample : Kind::kBatch;
}

absl::StatusOr<const OpTable::Entry*> OpTable::Find(std::string_view name, uint32_t version) const {
  const auto it = entries_.find({std::string(name), version});
  if (it != entries_.end()) return &it->second;
  std::vector<std::string> names;
  std::vector<uint32_t> versions;
  for (const auto& [key, entry] : entries_) {
    if (key.first == name) versions.push_back(key.second);
    if (names.empty() || names.back() != key.first) names.push_back(key.first);
  }
  if (!versions.empty()) {
    return absl::NotFoundError(absl::StrCat("op \"", ToAbsl(name), "\" has no version ", version,
                                            "; there is: ", absl::StrJoin(versions, ", ")));
  }
  return absl::NotFoundError(absl::StrCat(
      "no op \"", ToAbsl(name), "\"",
      names.empty() ? "; no ops were registered in the OpTable" : DidYouMean(name, names)));
}

absl::StatusOr<std::unique_ptr<Op>> OpTable::Make(std::string_view name, uint32_t version,
                                                  std::string_view options,
                                                  std::string_view stage) const {
  MILLRACE_ASSIGN_OR_RETURN(const Entry* entry, Find(name, version));
  if (!entry->sample) return WrongKind(name, "batches", "samples");
  return MakeGuarded<Op, GuardedOp>(name, entry->sample, {options, stage});
}

absl::StatusOr<std::unique_ptr<BatchOp>> OpTable::MakeBatch(std::string_view name, uint32_t version,
                                                            std::string_view options,
                                                            std::string_view stage) const {
  MILLRACE_ASSIGN_OR_RETURN(const Entry* entry, Find(name, version));
  if (!entry->batch) return WrongKind(name, "samples", "batches");
  return MakeGuarded<BatchOp, GuardedBatchOp>(name, entry->batch, {options, stage});
}

}  // namespace millrace::pipeline
