#ifndef MILLRACE_PIPELINE_STAGES_FEATURE_KEYS_H_
#define MILLRACE_PIPELINE_STAGES_FEATURE_KEYS_H_

#include "pipeline/plan/message.h"
#include "readers/feature_spec.h"

// Features whose key is a list in braces.

namespace millrace::pipeline {

template <typename Feature>
using Features = google::protobuf::RepeatedPtrField<Feature>;

// Returns a feature for each key that those of the text stand for. One that stands for none, which
// the stage's check tells of, stays as it is.
template <typename Feature>
Features<Feature> Expanded(const Features<Feature>& features) {
  Features<Feature> all;
  for (const Feature& feature : features) {
    const auto names = readers::ExpandKeys(feature.key(), feature.name());
    if (!names.ok()) *all.Add() = feature;
    if (!names.ok()) continue;
    for (const readers::FeatureName& name : *names) {
      Feature* const one = all.Add();
      *one = feature;
      one->set_key(name.key);
      one->set_name(name.column);
    }
  }
  return all;
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_STAGES_FEATURE_KEYS_H_
