#include "trainer/optimizer/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/job/job.pb.h"

namespace millrace::trainer {
namespace {

bool Matches(const std::string& pattern, const Parameter& parameter) {
  return fnmatch(pattern.c_str(), parameter.name.c_str(), 0) == 0;
}

// The number of the group of `parameter`; that of groups if none matches.
int GroupOf(const OptimizerSpec& spec, const Parameter& parameter) {
  const auto& groups = spec.group();
  const auto found = std::ranges::find_if(groups, [&](const ParameterGroup& group) {
    return std::ranges::any_of(
        group.pattern(), [&](const std::string& pattern) { return Matches(pattern, parameter); });
  });
  return static_cast<int>(found - groups.begin());
}

ParameterSettings SettingsOf(const OptimizerSpec& spec, const Parameter& parameter) {
  ParameterSettings settings;
  const bool is_matrix = !parameter.is_bias && parameter.shape.rank() > 1;
  if (is_matrix || spec.decay_bias()) {
    settings.weight_decay = static_cast<float>(spec.weight_decay());
  }
  settings.trust = is_matrix;
  const int number = GroupOf(spec, parameter);
  if (number == spec.group_size()) return settings;
  const ParameterGroup& group = spec.group(number);
  if (group.has_weight_decay()) settings.weight_decay = static_cast<float>(group.weight_decay());
  if (group.has_lr_scale()) settings.lr_scale = group.lr_scale();
  settings.frozen = group.frozen();
  if (group.has_trust()) settings.trust = group.trust();
  return settings;
}

std::string Describe(const ParameterGroup& group, int64_t parameters) {
  std::string text = absl::StrCat(absl::StrJoin(group.pattern(), " "), ": ", parameters,
                                  parameters == 1 ? " parameter" : " parameters");
  if (group.frozen()) return text + ", frozen";
  if (group.has_weight_decay()) absl::StrAppend(&text, ", weight decay ", group.weight_decay());
  if (group.has_lr_scale()) absl::StrAppend(&text, ", rate times ", group.lr_scale());
  if (group.has_trust()) absl::StrAppend(&text, group.trust() ? ", trust" : ", no trust", " ratio");
  return text;
}

}  // namespace

std::vector<ParameterSettings> SettingsOf(const OptimizerSpec& spec, const Model& model) {
  std::vector<ParameterSettings> settings;
  for (const Parameter& parameter : model.parameters) {
    settings.push_back(SettingsOf(spec, parameter));
  }
  return settings;
}

std::optional<BadField> CheckGroups(const OptimizerSpec& spec, const Model& model) {
  const auto name = [](std::string* out, const Parameter& parameter) { *out += parameter.name; };
  for (int i = 0; i < spec.group_size(); ++i) {
    for (int j = 0; j < spec.group(i).pattern_size(); ++j) {
      const std::string& pattern = spec.group(i).pattern(j);
      const auto matches = [&](const Parameter& parameter) { return Matches(pattern, parameter); };
      if (std::ranges::any_of(model.parameters, matches)) continue;
      return BadField{{{"optimizer"}, {"group", i}, {"pattern", j}},
                      absl::StrCat("'", pattern, "' matches no parameter of the model, which has ",
                                   absl::StrJoin(model.parameters, ", ", name))};
    }
  }
  return std::nullopt;
}

std::string DescribeGroups(const OptimizerSpec& spec, const Model& model) {
  if (spec.group_size() == 0) return "none";
  std::vector<int64_t> counts(spec.group_size() + 1);
  for (const Parameter& parameter : model.parameters) ++counts[GroupOf(spec, parameter)];
  std::string text;
  for (int i = 0; i < spec.group_size(); ++i) {
    absl::StrAppend(&text, Describe(spec.group(i), counts[i]), "; ");
  }
  return absl::StrCat(text, "the rest: ", counts.back());
}

}  // namespace millrace::trainer
