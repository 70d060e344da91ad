#include "trainer/weights/exchange.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/weights/layout.h"

namespace millrace::trainer {
namespace {

constexpr size_t kMaxNamed = 10;

// The names of one kind of mistake.
struct Names {
  const char* title;
  std::vector<std::string> names;
};

void AppendNames(const Names& kind, std::string& text) {
  if (kind.names.empty()) return;
  absl::StrAppend(&text, text.empty() ? "" : "; ", kind.title, ": ");
  for (size_t i = 0; i < std::min(kind.names.size(), kMaxNamed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", kind.names[i]);
  }
  if (kind.names.size() > kMaxNamed) {
    absl::StrAppend(&text, " and ", kind.names.size() - kMaxNamed, " more");
  }
}

bool MatchesOne(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool Matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return MatchesOne(pattern, name); });
}

// Moves tensors out of a file, and collects what does not fit.
class Taker {
 public:
  Taker(TensorFile file, const Model& model, const std::vector<std::string>& except)
      : file_(std::move(file)), model_(model), except_(except) {
    for (const auto& [name, tensor] : file_.tensors) names_.insert(name);
  }

  void Take(TensorSet& weights, TensorSet& buffers);
  // What does not fit; empty: everything does.
  std::string Mistakes();

 private:
  bool IsExcepted(const std::string& ours) const {
    return Matches(except_, ours) || Matches(except_, TorchName(ours));
  }
  // True for the tensor of an optimizer's slot ("momentum/conv1/weights"), of a parameter of the
  // model or of the file.
  bool IsSlot(const std::string& name) const;
  // Takes the tensor of a parameter or buffer. Returns true if it has our layout.
  bool TakeOne(const std::string& ours, const Shape& shape, std::vector<float>& to);

  TensorFile file_;
  std::set<std::string> names_;  // of all tensors of the file
  const Model& model_;
  const std::vector<std::string>& except_;
  Names missing_{"it lacks", {}};
  Names unlike_{"shapes differ", {}};
};

bool Taker::TakeOne(const std::string& ours, const Shape& shape, std::vector<float>& to) {
  auto found = file_.tensors.find(ours);
  const bool has_our_layout = found != file_.tensors.end();
  if (!has_our_layout) found = file_.tensors.find(TorchName(ours));
  const bool is_excepted = IsExcepted(ours);
  if (found == file_.tensors.end()) {
    if (!is_excepted) missing_.names.push_back(absl::StrCat(ours, " ", shape.ToString()));
    return true;
  }
  if (!is_excepted) {
    if (found->second.shape == shape) {
      to = std::move(found->second.data);
    } else {
      unlike_.names.push_back(absl::StrCat(found->first, " ", found->second.shape.ToString(),
                                           " (the model's: ", shape.ToString(), ")"));
    }
  }
  file_.tensors.erase(found);
  return has_our_layout || is_excepted;
}

void Taker::Take(TensorSet& weights, TensorSet& buffers) {
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const Parameter& parameter = model_.parameters[i];
    if (!TakeOne(parameter.name, parameter.shape, weights[i])) {
      weights[i] = FromTorchLayout(model_, i, weights[i]);
    }
  }
  for (size_t i = 0; i < model_.buffers.size(); ++i) {
    TakeOne(model_.buffers[i].name, model_.buffers[i].shape, buffers[i]);
  }
}

bool Taker::IsSlot(const std::string& name) const {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return false;
  const std::string of = name.substr(slash + 1);
  return names_.contains(of) ||
         std::ranges::any_of(model_.parameters, [&](const Parameter& p) { return p.name == of; });
}

std::string Taker::Mistakes() {
  Names unknown{"no layer of the model has", {}};
  for (const auto& [name, tensor] : file_.tensors) {
    const bool is_counter = absl::EndsWith(name, ".num_batches_tracked");
    if (!is_counter && !IsSlot(name) && !IsExcepted(name)) unknown.names.push_back(name);
  }
  std::string text;
  for (const Names& kind : {missing_, unlike_, unknown}) AppendNames(kind, text);
  return text;
}

}  // namespace

absl::Status TakeWeights(const std::string& path, TensorFile file, const Model& model,
                         const std::vector<std::string>& except, TensorSet& weights,
                         TensorSet& buffers) {
  Taker taker(std::move(file), model, except);
  taker.Take(weights, buffers);
  const std::string mistakes = taker.Mistakes();
  if (!mistakes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its weights do not fit the model: ", mistakes));
  }
  for (const TensorRef& tensor : WithOurNames(model, weights, buffers)) {
    if (!std::ranges::all_of(tensor.data, [](float v) { return std::isfinite(v); })) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a value of '", tensor.name, "' is not finite"));
    }
  }
  return absl::OkStatus();
}

std::optional<size_t> FirstWithoutMatch(const TensorFile& file, const Model& model,
                                        const std::vector<std::string>& except) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& ours) {
    names.push_back(ours);
    names.push_back(TorchName(ours));
  };
  for (const Parameter& parameter : model.parameters) add(parameter.name);
  for (const Buffer& buffer : model.buffers) add(buffer.name);
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  for (const auto& [name, dtype] : file.skipped) names.push_back(name);
  for (size_t i = 0; i < except.size(); ++i) {
    const auto matches = [&](const std::string& name) { return MatchesOne(except[i], name); };
    if (std::ranges::none_of(names, matches)) return i;
  }
  return std::nullopt;
}

TorchTensors WithTorchNames(const Model& model, const TensorSet& weights,
                            const TensorSet& buffers) {
  TorchTensors out;
  out.tensors = WithOurNames(model, weights, buffers);
  out.storage.resize(model.parameters.size());
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    out.storage[i] = ToTorchLayout(model, i, weights[i]);
    out.tensors[i].data = out.storage[i];
  }
  for (TensorRef& tensor : out.tensors) tensor.name = TorchName(tensor.name);
  return out;
}

std::vector<TensorRef> WithOurNames(const Model& model, const TensorSet& weights,
                                    const TensorSet& buffers) {
  std::vector<TensorRef> refs;
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    refs.push_back({model.parameters[i].name, model.parameters[i].shape, weights[i]});
  }
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    refs.push_back({model.buffers[i].name, model.buffers[i].shape, buffers[i]});
  }
  return refs;
}

}  // namespace millrace::trainer
