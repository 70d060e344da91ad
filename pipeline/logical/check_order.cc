#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/logical/logical.h"
#include "pipeline/plan/limits.h"
#include "pipeline/stages/table.h"

// Which stages may stand where (docs/semantics.md, S-PLAN-3 and S-PLAN-11 to S-PLAN-14).
//
// The rules follow from how a plan runs. Stages in front of the first cut are arithmetic and may be
// composed freely, as long as nothing waits for the end of an endless stream. Behind a cut
// rows are known only by looking at them, one after the other, so only steps that need neither a
// length nor a second pass may follow. Behind the batch there are whole batches.

namespace millrace::pipeline {
namespace {

// The kind of a source's samples.
enum class Samples { kRecords, kNumbers, kLabelledRecords };

Samples SamplesOf(const proto::Stage& source) {
  if (source.has_range()) return Samples::kNumbers;
  return source.has_image_folder() ? Samples::kLabelledRecords : Samples::kRecords;
}

const char* NameOf(Samples samples) {
  switch (samples) {
    case Samples::kRecords:
      return "records";
    case Samples::kNumbers:
      return "the numbers of a range";
    case Samples::kLabelledRecords:
      return "the labelled images of an image_folder";
  }
  return "";
}

// The facts that a join has to know of an input.
struct Outlook {
  std::string endless;  // where the repeat without end stands; empty: none
  Samples samples = Samples::kRecords;
};

// Works on samples one by one, or on the order of samples.
bool IsForSamplesOnly(const proto::Stage& stage) {
  return !stage.has_repeat() && !stage.has_take() && !stage.has_skip();
}

// Walks the stages of one pipeline from the source outwards.
class OrderChecker {
 public:
  explicit OrderChecker(PipelineAt at) : at_(std::move(at)) {}

  absl::StatusOr<Outlook> Check() {
    const int n = at_.pipeline->stage_size();
    if (!at_.is_whole()) MILLRACE_RETURN_IF_ERROR(CheckInputHead());
    for (int i = 0; i < n; ++i) MILLRACE_RETURN_IF_ERROR(CheckStage(i));
    if (n == 0) {
      return ErrorAt(at_.At({}), at_.is_whole() ? "a plan needs stages; the first is a source"
                                                : "an input needs stages; the first is a source");
    }
    if (at_.is_whole() && batch_ < 0) {
      return ErrorAt(at_.Where(n - 1), "no batch stage; add stage { batch { size: ... } }");
    }
    return outlook_;
  }

 private:
  // Checks that an input of a join sets nothing that belongs to the whole plan.
  absl::Status CheckInputHead() const {
    const std::string what = " belongs to the whole plan, not to an input";
    if (at_.pipeline->seed() != 0) return ErrorAt(at_.At({{"seed"}}), "seed" + what);
    if (at_.pipeline->lanes() != 0) return ErrorAt(at_.At({{"lanes"}}), "lanes" + what);
    if (at_.pipeline->semantics_version() != 0) {
      return ErrorAt(at_.At({{"semantics_version"}}), "semantics_version" + what);
    }
    if (at_.pipeline->has_performance()) {
      return ErrorAt(at_.At({{"performance"}}), "performance" + what);
    }
    if (at_.pipeline->has_on_damage()) return ErrorAt(at_.At({{"on_damage"}}), "on_damage" + what);
    return absl::OkStatus();
  }

  const proto::Stage& stage(int i) const { return at_.pipeline->stage(i); }

  absl::Status CheckStage(int i) {
    const StageKind kind = KindOf(stage(i));
    if (i == 0 && kind != StageKind::kSource) {
      return ErrorAt(
          at_.Where(i),
          absl::StrCat("the first stage must be a source (tfrecord, text, csv, tar, idx, "
                       "fixed_length, image_folder, memory, range, push, concatenate, "
                       "mix, zip), not ",
                       OpName(stage(i))));
    }
    if (i > 0 && kind == StageKind::kSource) {
      return ErrorAt(at_.Where(i),
                     "a second source; a plan has one, first (concatenate, mix and zip "
                     "join several)");
    }
    if (!at_.is_whole() && kind != StageKind::kSource && kind != StageKind::kOrder) {
      return ErrorAt(at_.Where(i), absl::StrCat(OpName(stage(i)),
                                                " cannot stand in an input, which has a source and "
                                                "order stages only; put it behind the join"));
    }
    switch (kind) {
      case StageKind::kSource:
        return CheckSource(i);
      case StageKind::kOrder:
        return CheckOrder(i);
      case StageKind::kMap:
        if (DrawsAtRandom(stage(i))) random_ = i;
        if (map_ < 0 && !RowOf(stage(i)).parses) map_ = i;
        if (MixesRows(stage(i))) {
          if (batch_ >= 0) return absl::OkStatus();
          return ErrorAt(at_.Where(i),
                         absl::StrCat(OpName(stage(i)),
                                      " mixes the rows of whole batches; put it behind "
                                      "the batch stage"));
        }
        if (batch_ < 0 || stage(i).has_custom()) return absl::OkStatus();
        return BehindBatch(i, " works on samples");
      case StageKind::kCut:
        return CheckCut(i);
      case StageKind::kWindow:
        return CheckWindow(i);
      case StageKind::kBatch:
        MILLRACE_RETURN_IF_ERROR(CheckBuckets(i));
        if (stage(i).has_bucket_by_length() && window_ >= 0) {
          return ErrorAt(at_.Where(i), absl::StrCat("bucket_by_length cannot follow the window at ",
                                                    at_.Where(window_),
                                                    ", whose windows have one length; batch can"));
        }
        return Once(i, "batch", &batch_);
      case StageKind::kPrefetch:
        if (batch_ < 0) return ErrorAt(at_.Where(i), "prefetch must stand after batch");
        return Once(i, "prefetch", &prefetch_);
    }
    return absl::OkStatus();
  }

  absl::Status BehindBatch(int i, const char* why) const {
    return ErrorAt(at_.Where(i),
                   absl::StrCat(OpName(stage(i)), why, " and must stand before the batch at ",
                                at_.Where(batch_)));
  }

  absl::Status Once(int i, const char* op, int* first) {
    if (*first >= 0) {
      return ErrorAt(at_.Where(i),
                     absl::StrCat("a second ", op, "; the first is at ", at_.Where(*first)));
    }
    *first = i;
    return absl::OkStatus();
  }

  absl::Status CheckSource(int i) {
    outlook_.samples = SamplesOf(stage(i));
    if (stage(i).has_push() && !at_.is_whole()) {
      return ErrorAt(at_.Where(i), "push cannot be an input: its length is unknown");
    }
    if (stage(i).has_zip() && !at_.is_whole()) {
      return ErrorAt(
          at_.Where(i),
          "zip cannot be an input: what it makes is no record; it can only be the source "
          "of the whole plan");
    }
    if (InputsOf(stage(i)) == nullptr) return absl::OkStatus();
    const std::vector<PipelineAt> inputs = at_.Inputs(i);
    bool all_endless = !inputs.empty();
    for (size_t k = 0; k < inputs.size(); ++k) {
      MILLRACE_ASSIGN_OR_RETURN(const Outlook input, OrderChecker(inputs[k]).Check());
      if (k == 0) outlook_ = input;
      if (input.samples != outlook_.samples && !stage(i).has_zip()) {
        const auto [one, other] = std::minmax(input.samples, outlook_.samples);
        return ErrorAt(inputs[k].At({}),
                       absl::StrCat(NameOf(one), " and ", NameOf(other), " cannot be joined"));
      }
      if (input.samples == Samples::kLabelledRecords && stage(i).has_zip()) {
        return ErrorAt(inputs[k].At({}),
                       "an image_folder cannot be an input of zip, whose inputs have one field "
                       "each: its samples have a record and a label");
      }
      if (stage(i).has_concatenate() && !input.endless.empty() && k + 1 < inputs.size()) {
        return ErrorAt(inputs[k + 1].At({}), absl::StrCat("this input is never reached: the repeat "
                                                          "at ",
                                                          input.endless, " has no end"));
      }
      all_endless &= !input.endless.empty();
      outlook_.endless = input.endless;
    }
    // A mix or zip ends with the first input that does, a concatenate with its last.
    if (!stage(i).has_concatenate() && !all_endless) outlook_.endless.clear();
    return absl::OkStatus();
  }

  absl::Status CheckOrder(int i) {
    const proto::Stage& s = stage(i);
    if (s.has_take()) outlook_.endless.clear();
    if (batch_ >= 0 && IsForSamplesOnly(s)) {
      const bool shuffle = s.has_global_shuffle() || s.has_shuffle();
      return BehindBatch(i, shuffle ? " permutes samples" : " works on samples");
    }
    if (s.has_interleave() && (i != 1 || !RowOf(stage(0)).reads_files)) {
      return ErrorAt(at_.Where(i),
                     "interleave reads files in turns and must stand directly after a source of "
                     "files (tfrecord, text, ...)");
    }
    if (s.shard().by_bytes() && (i != 1 || !RowOf(stage(0)).reads_files)) {
      return ErrorAt(
          at_.Where(i, "by_bytes"),
          "by_bytes parts the bytes of files: the shard must stand directly after a source "
          "of files (tfrecord, text, ...)");
    }
    MILLRACE_RETURN_IF_ERROR(CheckPushed(i));
    MILLRACE_RETURN_IF_ERROR(CheckBehindCut(i));
    MILLRACE_RETURN_IF_ERROR(CheckEndless(i));
    if (s.has_shuffle()) shuffle_ = i;
    if (s.has_global_shuffle() && shuffle_ >= 0) {
      return ErrorAt(at_.Where(i), absl::StrCat("global_shuffle permutes everything, which makes "
                                                "the shuffle at ",
                                                at_.Where(shuffle_), " pointless; drop one"));
    }
    if (s.has_repeat() && s.repeat().epochs() == 0) outlook_.endless = at_.Where(i);
    return absl::OkStatus();
  }

  // Exactly what growing_order.cc can count without seeing the end of the source.
  absl::Status CheckPushed(int i) const {
    const proto::Stage& s = stage(i);
    if (!stage(0).has_push()) return absl::OkStatus();
    const bool counts = s.has_take() || s.has_skip() || s.has_shard() || s.has_shuffle();
    if (batch_ < 0 && counts) return absl::OkStatus();
    return ErrorAt(at_.Where(i),
                   absl::StrCat(OpName(s), batch_ >= 0 ? " of batches" : "",
                                " cannot follow push: what is pushed comes once, and how much is "
                                "not known; take, skip, shard and shuffle in front of the batch "
                                "can"));
  }

  absl::Status CheckBehindCut(int i) {
    const proto::Stage& s = stage(i);
    if (cut_ < 0 || batch_ >= 0) return absl::OkStatus();
    order_behind_cut_ = i;
    if (s.has_shuffle()) {
      // Every lane has at least one slot.
      const uint64_t rows = std::max<uint64_t>(s.shuffle().buffer_size(), at_.pipeline->lanes());
      return CountOpenRows(at_.Where(i, "buffer_size"), "buffer_size", rows);
    }
    if (s.has_take() || s.has_skip()) return absl::OkStatus();
    const char* advice = s.has_repeat() ? "in front of it or behind the batch" : "in front of it";
    return ErrorAt(at_.Where(i), absl::StrCat(OpName(s), " cannot follow the ", OpName(stage(cut_)),
                                              " at ", at_.Where(cut_),
                                              ", behind which the number of samples is not known; "
                                              "put it ",
                                              advice));
  }

  absl::Status CheckBuckets(int i) {
    const proto::BucketByLength& bucket = stage(i).bucket_by_length();
    for (int k = 0; k < bucket.batch_size_size(); ++k) {
      MILLRACE_RETURN_IF_ERROR(
          CountOpenRows(at_.Where(i, "batch_size", k), "batch_size", bucket.batch_size(k)));
    }
    return absl::OkStatus();
  }

  // Counts `rows` more that may be open between two batches, by the field at `where`.
  absl::Status CountOpenRows(const std::string& where, const char* field, uint64_t rows) {
    if (rows <= kMaxOpenRows - open_rows_) {
      open_rows_ += rows;
      return absl::OkStatus();
    }
    return ErrorAt(
        where, absl::StrCat(field, " is ", rows, " but may be at most ", kMaxOpenRows - open_rows_,
                            ": shuffles behind a filter or unbatch and buckets hold ", kMaxOpenRows,
                            " rows together at most, because every batch's resume token "
                            "names them"));
  }

  absl::Status CheckEndless(int i) const {
    const proto::Stage& s = stage(i);
    if (outlook_.endless.empty()) return absl::OkStatus();
    if (s.has_global_shuffle() || s.has_repeat()) {
      return ErrorAt(at_.Where(i),
                     absl::StrCat(OpName(s), " after the endless repeat at ", outlook_.endless,
                                  " would wait for its end; put it before, or give "
                                  "that one epochs"));
    }
    if (s.has_shuffle()) {
      return ErrorAt(at_.Where(i),
                     absl::StrCat("shuffle after the endless repeat at ", outlook_.endless,
                                  " would mix epochs; put the repeat behind it",
                                  cut_ < 0 ? "" : ", behind the batch"));
    }
    return absl::OkStatus();
  }

  // Which elements a window has must be known without looking at any.
  absl::Status CheckWindow(int i) {
    if (batch_ >= 0) return BehindBatch(i, " is made of samples");
    MILLRACE_RETURN_IF_ERROR(Once(i, "window", &window_));
    if (stage(0).has_push()) {
      return ErrorAt(at_.Where(i),
                     "window cannot follow push: a window has to find its elements again, and what "
                     "is pushed comes once");
    }
    if (cut_ >= 0) {
      return ErrorAt(
          at_.Where(i),
          absl::StrCat(
              "window cannot follow the ", OpName(stage(cut_)), " at ", at_.Where(cut_),
              ", behind which only the samples themselves tell which follow each other",
              stage(cut_).has_filter() ? "; materialize: true makes it a part of the order" : ""));
    }
    shuffle_ = -1;  // one of elements and one of windows are two things
    return absl::OkStatus();
  }

  absl::Status CheckCut(int i) {
    if (batch_ >= 0) return BehindBatch(i, " works on samples");
    if (window_ >= 0) {
      return ErrorAt(
          at_.Where(i),
          absl::StrCat(OpName(stage(i)), " cannot follow the window at ", at_.Where(window_),
                       stage(i).has_filter() ? "; a filter with materialize: true can stand "
                                               "in front of it"
                                             : ""));
    }
    if (stage(i).filter().materialize()) return CheckMaterialized(i);
    if (cut_ < 0) cut_ = i;
    if (!stage(i).has_unbatch()) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(Once(i, "unbatch", &unbatch_));
    if (order_behind_cut_ >= 0) {
      return ErrorAt(
          at_.Where(i),
          absl::StrCat(OpName(stage(order_behind_cut_)), " at ", at_.Where(order_behind_cut_),
                       " stands between a filter and this unbatch; put it in front of "
                       "the filter or behind the unbatch"));
    }
    if (random_ >= 0) {
      return ErrorAt(at_.Where(i), absl::StrCat(OpName(stage(random_)), " at ", at_.Where(random_),
                                                " draws for each sample that comes out of this "
                                                "unbatch; put it behind the unbatch"));
    }
    return absl::OkStatus();
  }

  // It is decided once and for all records, before anything else.
  absl::Status CheckMaterialized(int i) const {
    const auto error = [&](const std::string& why) {
      return ErrorAt(at_.Where(i, "materialize"),
                     absl::StrCat("materialize keeps what is found out about each record of the "
                                  "source, ",
                                  why));
    };
    if (stage(0).has_push()) {
      return error("and what is pushed comes once; leave materialize out");
    }
    if (stage(0).has_zip()) {
      return error(absl::StrCat("and which records the zip at ", at_.Where(0),
                                " puts side by side may differ from epoch to epoch; leave "
                                "materialize out"));
    }
    const int blocker = cut_ >= 0 && (map_ < 0 || cut_ < map_) ? cut_ : map_;
    if (blocker < 0) return absl::OkStatus();
    return error(absl::StrCat(
        "so only order stages, parse_example and its like, decode_raw and other "
        "materialized filters may stand in front of it; put it in front of "
        "the ",
        OpName(stage(blocker)), " at ", at_.Where(blocker), ", or leave materialize out"));
  }

  const PipelineAt at_;
  Outlook outlook_;
  int batch_ = -1;
  int prefetch_ = -1;
  int shuffle_ = -1;
  int map_ = -1;  // the first that does more than parse
  int cut_ = -1;  // the first
  int window_ = -1;
  int unbatch_ = -1;
  int order_behind_cut_ = -1;
  uint64_t open_rows_ = 0;  // the rows of the stages so far that a token may have to name
  int random_ = -1;         // the last op that draws
};

}  // namespace

absl::Status CheckStageOrder(const PlanMessage& plan) {
  return OrderChecker(PipelineAt::Whole(plan)).Check().status();
}

}  // namespace millrace::pipeline
