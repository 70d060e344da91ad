#include "readers/container/tar_samples.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/container/tar_walk.h"
#include "readers/foreign_kind.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kReportEveryBytes = 256 << 10;
constexpr uint64_t kEndMarkBytes = 2 * kTarBlock;

// The key of the sample that a member belongs to; "" for none.
std::string_view KeyOf(const TarMember& member) {
  return member.is_file ? TarSampleKey(member.name) : std::string_view();
}

// Adds what follows the key in the member's name.
void AddSuffix(const TarMember& member, std::string_view key, std::string& suffixes) {
  suffixes.append(member.name, key.size()).push_back('\0');
}

class SampleWalk {
 public:
  SampleWalk(const RandomAccessFile& file, const WalkOptions& options)
      : file_(file),
        options_(options),
        walk_(file, options.max_record_bytes, /*is_part=*/false, options.begins_narrow) {}

  absl::StatusOr<TarSamples> Run() {
    while (true) {
      const auto member = walk_.Next();
      if (!member.ok()) return Stopped(member.status());
      if (!member->has_value()) break;
      if (!Add(**member)) return TooLong(**member);
      if (walk_.offset() - reported_ >= kReportEveryBytes) Report(walk_.offset());
    }
    const uint64_t mark = walk_.offset();
    const absl::Status rest = walk_.CheckRest();
    if (!rest.ok()) return BehindZeros(rest);
    if (file_.size() - mark > kMostTarEndBytes) return EndsInZeros(mark);
    Report(file_.size());
    begins_.push_back(end_);
    return TarSamples{std::move(begins_), std::nullopt};
  }

 private:
  // False if the sample that began last is longer than the limit.
  bool Add(const TarMember& member) {
    const std::string_view key = KeyOf(member);
    if (key.empty()) return true;
    if (begins_.empty() || key != key_) {
      if (!HasRoom(member.begin)) return false;
      begins_.push_back(member.begin);
      key_ = key;
      suffixes_.clear();
    }
    AddSuffix(member, key, suffixes_);
    end_ = member.end;
    return HasRoom(end_);
  }

  // Whether the sample that began last may reach to `end`, with what follows it.
  bool HasRoom(uint64_t end) const {
    return begins_.empty() || end - begins_.back() <= options_.max_record_bytes;
  }

  void Report(uint64_t offset) {
    if (options_.advanced) options_.advanced(offset - reported_);
    reported_ = offset;
  }

  TarSamples TooLong(const TarMember& member) {
    const bool is_behind = KeyOf(member) != key_;
    TarDamage damage;
    damage.reason = RecordErrorReason::kAbsurdLength;
    damage.text = absl::StrCat("a sample of more than ", options_.max_record_bytes,
                               " bytes, which is the limit");
    damage.go_on_at = is_behind ? member.begin : member.end;
    damage.key = key_;
    return OfLastSample(std::move(damage));
  }

  absl::StatusOr<TarSamples> Stopped(const absl::Status& status) {
    if (!GetRecordError(status).has_value()) return status;
    const TarFault& fault = walk_.fault();
    TarDamage damage = {.offset = fault.begin,
                        .reason = fault.reason,
                        .text = fault.text,
                        .go_on_at = walk_.offset(),
                        .key = std::nullopt};
    if (!fault.member.has_value()) return AtHeader(std::move(damage));
    if (fault.member->end <= file_.size()) damage.go_on_at = fault.member->end;
    damage.key = KeyOf(*fault.member);
    if (damage.key->empty() && !begins_.empty()) damage.key = key_;
    if (begins_.empty() || *damage.key != key_) return BehindSamples(std::move(damage), end_);
    return OfLastSample(std::move(damage));
  }

  // Of a header that tells nothing: the sample in front of it may go on there.
  absl::StatusOr<TarSamples> AtHeader(TarDamage damage) {
    if (walk_.offset() == 0) MILLRACE_RETURN_IF_ERROR(Explain(damage));
    if (begins_.empty()) return BehindSamples(std::move(damage), end_);
    damage.text = absl::StrCat("this sample may lack a member: ", damage.text);
    return OfLastSample(std::move(damage));
  }

  // At the front of a file its bytes may say what it is instead.
  absl::Status Explain(TarDamage& damage) const {
    std::array<std::byte, kTellingTextBytes> bytes = {};
    MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(0, bytes));
    const std::string_view kind = ForeignKind({reinterpret_cast<const char*>(bytes.data()), got});
    if (!kind.empty()) damage.text = absl::StrCat("not a tar archive, but ", ToAbsl(kind));
    return absl::OkStatus();
  }

  // Nothing tells an end mark from members that were overwritten with zeros but the samples on both
  // sides, which have the same members where none was lost.
  absl::StatusOr<TarSamples> BehindZeros(const absl::Status& status) {
    if (!GetRecordError(status).has_value()) return status;
    TarDamage damage = {.offset = walk_.fault().begin,
                        .reason = walk_.fault().reason,
                        .text = walk_.fault().text,
                        .go_on_at = walk_.offset(),
                        .key = std::nullopt};
    const bool may_be_mark = damage.go_on_at - damage.offset >= kEndMarkBytes;
    if (!may_be_mark) damage.text = "zeros in the place of a header";
    MILLRACE_ASSIGN_OR_RETURN(const std::string behind, SuffixesOfNextSample());
    if (!may_be_mark || behind.empty() || behind != suffixes_) return AtHeader(std::move(damage));
    damage.offset = damage.go_on_at;
    damage.key.emplace();
    return BehindSamples(std::move(damage), end_);
  }

  // Those of the sample that begins where the walk is; "" if it is not whole.
  absl::StatusOr<std::string> SuffixesOfNextSample() {
    std::string key;
    std::string suffixes;
    while (true) {
      const auto member = walk_.Next();
      if (!member.ok() && !GetRecordError(member.status()).has_value()) return member.status();
      if (!member.ok()) return std::string();
      if (!member->has_value()) return suffixes;
      const std::string_view member_key = KeyOf(**member);
      if (member_key.empty()) continue;
      if (!key.empty() && member_key != key) return suffixes;
      key = member_key;
      AddSuffix(**member, key, suffixes);
    }
  }

  absl::StatusOr<TarSamples> EndsInZeros(uint64_t begin) {
    return AtHeader({.offset = begin,
                     .reason = RecordErrorReason::kUnknown,
                     .text = TooManyZeros(file_.size() - begin),
                     .go_on_at = file_.size(),
                     .key = std::nullopt});
  }

  // Damage of a sample of which no other member was seen.
  TarSamples BehindSamples(TarDamage damage, uint64_t end) {
    begins_.push_back(end);
    return {std::move(begins_), std::move(damage)};
  }

  TarSamples OfLastSample(TarDamage damage) {
    damage.offset = begins_.back();  // which is the end of the sample before it, too
    return {std::move(begins_), std::move(damage)};
  }

  const RandomAccessFile& file_;
  const WalkOptions& options_;
  TarWalk walk_;
  std::vector<uint64_t> begins_;
  std::string key_;       // of the last sample
  std::string suffixes_;  // of the members of the last sample, in their order
  uint64_t end_ = 0;
  uint64_t reported_ = 0;
};

}  // namespace

absl::StatusOr<TarSamples> FindTarSamples(const RandomAccessFile& file,
                                          const WalkOptions& options) {
  return SampleWalk(file, options).Run();
}

}  // namespace millrace::readers
