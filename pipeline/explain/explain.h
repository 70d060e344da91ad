#ifndef MILLRACE_PIPELINE_EXPLAIN_EXPLAIN_H_
#define MILLRACE_PIPELINE_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/plan.h"
#include "pipeline/plan/physical.h"
#include "readers/record_source.h"

namespace millrace::pipeline {

namespace proto {
class Stage;
}

// The facts that only opened sources can tell.
struct SourceFacts {
  struct Source {
    uint64_t shards = 0;
    uint64_t records = 0;
    uint64_t bytes = 0;  // the bytes of the inflated shards
    bool known = true;   // true if these are known: nothing is pushed
    // The number of records that materialized filters keep; nullopt: there is no such filter.
    std::optional<uint64_t> selected = std::nullopt;
    // The facts of compressed shards that are entered in the middle; nullopt: there are none.
    std::optional<readers::SpanFacts> spans = std::nullopt;
    // The facts of plain shards behind URLs; nullopt: there are none.
    std::optional<readers::FetchFacts> fetches = std::nullopt;
  };
  std::vector<Source> sources;  // the sources, as in PhysicalPlan
  int rank = 0;                 // the rank whose rows are told
  int world = 1;
};

// A number of elements. Counts that do not fit 64 bits stay at the largest.
struct StreamCount {
  std::optional<uint64_t> count;  // nullopt: without end
  bool exact = true;              // true if it is the number, not a limit

  static StreamCount Unknown() { return {UINT64_MAX, false}; }
  // "95", "at most 95", "without end", "not known before they are looked at"
  std::string ToString() const;
};

// The number of elements that come out of `steps` if `count` go in.
StreamCount CountAfter(StreamCount count, const std::vector<OrderStep>& steps);
// Samples of a pass over an order of sources.
StreamCount CountOf(const OrderPlan& order, const SourceFacts& facts);
// Samples of a pass over the order of the plan.
StreamCount CountOfSamples(const PhysicalPlan& physical, const SourceFacts& facts);

// The options of a stage in one line; inputs of a join have lines of their own.
std::string StageOptionsText(const proto::Stage& stage);

// The text of Explain: logical plan, rules, physical plan, and the sources if their facts are
// there.
std::string ExplainText(const Plan& plan, const PhysicalPlan& physical,
                        const std::optional<SourceFacts>& facts);
// Its parts.
std::string PhysicalText(const PhysicalPlan& physical);
std::string FactsText(const PhysicalPlan& physical, const SourceFacts& facts);
// The cost of orders that jump about in compressed shards, in words; empty: nothing to speak of.
std::string InflateText(const PhysicalPlan& physical, const SourceFacts& facts);
// The bytes that are fetched of shards behind URLs, in words; empty: there are none.
std::string FetchText(const PhysicalPlan& physical, const SourceFacts& facts);

// The steps that the records of each of the plan's sources go through, joins' among them.
std::vector<std::vector<OrderStep>> StepsOfSources(const PhysicalPlan& physical,
                                                   size_t num_sources);

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_EXPLAIN_EXPLAIN_H_
