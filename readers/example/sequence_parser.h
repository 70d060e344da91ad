#ifndef MILLRACE_READERS_EXAMPLE_SEQUENCE_PARSER_H_
#define MILLRACE_READERS_EXAMPLE_SEQUENCE_PARSER_H_

#include <string_view>

#include "readers/example/parser.h"

// The wire format of tf.train.SequenceExample:
//
//   SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
//   FeatureLists    { map<string, FeatureList> feature_list = 1; }
//   FeatureList     { repeated Feature feature = 1; }   one per step
//
// Read as an Example it is its context, with the feature lists as a field that is unknown, so what
// reads Examples reads contexts. This is the rest, with the same rules: of a key given twice the
// later entry wins, and the parts of a value that is given in several are joined.

namespace millrace::readers::internal {

// Calls visit(const FeatureEntry&) for every feature list in order; a key may come more than once.
// False: `error` says why.
template <typename Visit>
bool VisitFeatureLists(std::string_view example, WireError* error, Visit&& visit) {
  const auto none = [](const char* p, const char*) { return p; };
  return VisitMap<0x12>(example, error, none, visit);
}

// Calls visit(WireReader) for the Feature of every step. `example` is what VisitFeatureLists was
// given. False: `error` says why.
template <typename Visit>
bool VisitSteps(std::string_view example, const FeatureEntry& entry, WireError* error,
                Visit&& visit) {
  return DecodeValues(example, entry, error, [&](WireReader list) {
    while (list.Next()) {
      std::string_view step;
      if (list.tag() != 0x0a) {
        if (!list.Skip()) return false;
      } else if (!list.ReadBytes(&step) || !visit(WireReader(step, list))) {
        return false;
      }
    }
    return list.ok();
  });
}

// Decodes the entry's FeatureList into `sink`, that of DecodeFeature with
//   Step()  what follows is of the next step
template <typename Sink>
bool DecodeFeatureList(std::string_view example, const FeatureEntry& entry, WireError* error,
                       Sink& sink) {
  return VisitSteps(example, entry, error, [&](const WireReader& feature) {
    FeatureKind kind = FeatureKind::kNone;
    sink.Step();
    return DecodeLists(feature, &kind, sink);
  });
}

// A sink that keeps nothing.
struct IgnoreSteps : IgnoreSink {
  void Step() {}
};

// True when `example` is a valid tf.train.SequenceExample in every part.
bool CheckSequenceExample(std::string_view example, WireError* error);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_SEQUENCE_PARSER_H_
