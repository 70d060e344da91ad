#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes_text.h"
#include "base/number_text.h"
#include "cli/doctor/checks.h"

// The measurements of decoding and of the disks.

namespace millrace::cli::doctor {
namespace {

// Less is no measurement of a disk.
constexpr double kLeastSeconds = 0.05;
// A thread that has less of a core shares it with other programs, or is held back by a quota.
constexpr double kLeastCoreShare = 0.8;

std::string MegabytesText(double bytes_per_second) {
  return absl::StrFormat("%.0f MB/s", bytes_per_second / 1e6);
}

std::string HowRead(const DiskRate& disk) {
  switch (disk.bypass) {
    case Bypass::kDirect:
      return "past the page cache";
    case Bypass::kDropped:
      return "without O_DIRECT, which this file system refuses: a part may come from the page "
             "cache";
    case Bypass::kMemory:
      return "from memory: these files are on no disk";
  }
  return "";
}

// The bytes of JPEGs that all usable cores would decode in a second at the rate of one; 0: unknown.
double DecodedBytesPerSecond(const Host& host) {
  const DecodeRate& decoding = host.decoding;
  return decoding.images_per_second * static_cast<double>(decoding.image_bytes) * host.cores.usable;
}

std::string AmountText(const DiskRate& disk) {
  return absl::StrCat(Grouped(disk.num_files), disk.num_files == 1 ? " file, " : " files, ",
                      BytesText(static_cast<double>(disk.file_bytes)));
}

Finding FindingOf(const Host& host, const DiskRate& disk) {
  const std::string what = "data";
  if (!disk.error.empty()) return Failed(what, disk.error, "name files, patterns or folders");
  const std::string amount = AmountText(disk);
  if (disk.seconds < kLeastSeconds) {
    return Skipped(what, absl::StrCat(disk.path, ": too little to measure a disk (", amount, ")"));
  }
  const double rate = disk.bytes_per_second();
  const std::string found =
      absl::StrCat(disk.path, ": ", MegabytesText(rate), " ", HowRead(disk), " (", amount, ")");
  // Only the data's own images tell how many bytes a second of them costs.
  const double decoded = host.decoding.from.empty() ? 0 : DecodedBytesPerSecond(host);
  Finding finding = Fine(what, found);
  if (rate < decoded) {
    finding = Warned(what,
                     absl::StrCat(found, "; ", host.cores.usable, " cores would decode ",
                                  MegabytesText(decoded), " of its JPEGs"),
                     "copy the shards to a faster disk, or store smaller images (records convert "
                     "--max-resolution)");
  }
  finding.numbers = {{"bytes_per_second", rate},
                     {"read_bytes", static_cast<double>(disk.read_bytes)},
                     {"files", static_cast<double>(disk.num_files)},
                     {"direct", disk.bypass == Bypass::kDirect ? 1.0 : 0.0}};
  return finding;
}

}  // namespace

Findings CheckDecoding(const Host& host) {
  const DecodeRate& decoding = host.decoding;
  if (!decoding.error.empty()) return {Failed("decoding", decoding.error, "")};
  if (decoding.images_per_second <= 0) return {Skipped("decoding", "not measured")};
  const std::string image =
      absl::StrCat(decoding.width, " x ", decoding.height, ", ",
                   BytesText(static_cast<double>(decoding.image_bytes)),
                   decoding.from.empty() ? ", made" : absl::StrCat(", of ", decoding.from));
  const std::string found =
      absl::StrFormat("%.0f JPEGs/s on one core (%s)", decoding.images_per_second, image);
  Finding finding = Fine("decoding", found);
  if (decoding.core_share < kLeastCoreShare) {
    finding = Warned("decoding",
                     absl::StrFormat("%s; the thread had a core for %.0f %% of the time", found,
                                     100 * decoding.core_share),
                     "end other programs, or raise the cgroup's quota (top, /proc/pressure/cpu)");
  }
  finding.numbers = {{"images_per_second_per_core", decoding.images_per_second},
                     {"core_share", decoding.core_share},
                     {"image_bytes", static_cast<double>(decoding.image_bytes)}};
  return {finding};
}

Findings CheckData(const Host& host) {
  if (host.disks.empty()) {
    return {Skipped("data", "no --data PATH: name shards or their folder to measure the disk")};
  }
  Findings findings;
  for (const DiskRate& disk : host.disks) findings.push_back(FindingOf(host, disk));
  return findings;
}

}  // namespace millrace::cli::doctor
