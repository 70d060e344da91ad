// Each rank keeps one file, "rank-R", in the shared folder: a number drawn for this run, its data,
// and the numbers that it has read in the files of the others. A rank whose file holds *my* number
// is alive, for nobody could know it before; files that a crashed run has left never do, and their
// ranks replace them when they come. A file is written under another name and moved, so that nobody
// reads half of one.
//
// Once a rank has met all, it says so in its file, and removes it when all have said so or have
// gone on: nobody removes what another still has to read, and nothing is left but by ranks that are
// killed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/net/rendezvous.h"
#include "collectives/net/wire.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint32_t kFolderMagic = 0x3146524d;  // "MRF1"
constexpr size_t kMaxFileBytes =
    kMaxRendezvousBytes + kMaxJobIdBytes + 64 + kMaxRendezvousRanks * sizeof(uint64_t);
constexpr milliseconds kFirstFolderPause{2};
constexpr milliseconds kLongestFolderPause{100};

// The content of a file.
struct Card {
  std::string job_id;
  uint32_t size = 0;
  uint32_t rank = 0;
  uint64_t nonce = 0;
  uint32_t met_all = 0;
  std::vector<uint64_t> seen;  // by rank: the number in its file, 0: none yet
  std::string data;
};

std::string Encode(const Card& card) {
  WireWriter writer;
  writer.Add(kFolderMagic)
      .Add(card.job_id)
      .Add(card.size)
      .Add(card.rank)
      .Add(card.nonce)
      .Add(card.met_all);
  for (const uint64_t nonce : card.seen) writer.Add(nonce);
  writer.Add(card.data);
  const uint64_t check = XXH3_64bits(writer.text().data(), writer.text().size());
  return writer.Add(check).text();
}

// nullopt: not such a file, or not whole.
std::optional<Card> Decode(std::string_view text) {
  if (text.size() < sizeof(uint64_t)) return std::nullopt;
  const std::string_view body = text.substr(0, text.size() - sizeof(uint64_t));
  const auto check = WireReader(text.substr(body.size())).Number<uint64_t>();
  if (check != XXH3_64bits(body.data(), body.size())) return std::nullopt;
  WireReader reader(body);
  if (reader.Number<uint32_t>() != kFolderMagic) return std::nullopt;
  Card card;
  card.job_id = reader.String();
  card.size = reader.Number<uint32_t>();
  card.rank = reader.Number<uint32_t>();
  card.nonce = reader.Number<uint64_t>();
  card.met_all = reader.Number<uint32_t>();
  if (!reader.good() || card.size > kMaxRendezvousRanks) return std::nullopt;
  for (uint32_t i = 0; i < card.size; ++i) card.seen.push_back(reader.Number<uint64_t>());
  card.data = reader.String();
  if (!reader.Ended()) return std::nullopt;
  return card;
}

// The file's bytes; nullopt when there is none. Never more than a card may have.
absl::StatusOr<std::optional<std::string>> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return std::nullopt;
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  const UniqueFd owner(fd);
  std::string text(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == ESTALE) return std::nullopt;
    if (count < 0) return ErrnoStatus(errno, "read", path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

// Gives the file `temporary`, which is at `fd`, the contents `text` and the name `path`.
absl::Status WriteAndRename(int fd, const std::string& temporary, const std::string& path,
                            std::string_view text) {
  MILLRACE_RETURN_IF_ERROR(
      WriteFully(fd, std::as_bytes(std::span(text)), temporary, WriteFunction()));
  // Other hosts may not see what is only in this one's cache.
  if (::fsync(fd) != 0) return ErrnoStatus(errno, "fsync", temporary);
  if (::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  if (errno == ENOENT) return absl::AlreadyExistsError("another process has removed it");
  return ErrnoStatus(errno, "rename", path);
}

// No AtomicFile: one temporary name for all who write `path`, so that two of them notice each other
// and the next run removes what a crashed one has left; and a file that its owner alone may read.
//   ALREADY_EXISTS  another process writes the same file
absl::Status WriteFile(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());  // of a crashed run, or a link that someone has planted
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) return absl::AlreadyExistsError("another process writes it");
  if (!fd.valid()) return ErrnoStatus(errno, "open", temporary);
  absl::Status status = WriteAndRename(fd.get(), temporary, path, text);
  if (!status.ok() && !absl::IsAlreadyExists(status)) ::unlink(temporary.c_str());
  return status;
}

class Folder {
 public:
  Folder(const RendezvousOptions& options, std::string folder, std::string_view own,
         const RendezvousWaits& waits)
      : options_(options),
        folder_(std::move(folder)),
        deadline_(After(options.timeout)),
        waits_(waits) {
    card_.job_id = options.job_id;
    card_.size = static_cast<uint32_t>(options.size);
    card_.rank = static_cast<uint32_t>(options.rank);
    card_.nonce = RandomNonce();
    card_.data = own;
    card_.seen.resize(card_.size);
    card_.seen[card_.rank] = card_.nonce;
    peers_.resize(card_.size);
    peers_[card_.rank].met = peers_[card_.rank].done = true;
  }

  absl::StatusOr<std::vector<std::string>> Run() {
    if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "mkdir", folder_);
    }
    const absl::Status outcome = MeetAll();
    // Also after a failure, so that the next run finds nothing.
    if (written_ && !replaced_) ::unlink(Path(options_.rank).c_str());
    MILLRACE_RETURN_IF_ERROR(outcome);
    std::vector<std::string> all;
    for (Peer& peer : peers_) all.push_back(std::move(peer.data));
    all[card_.rank] = card_.data;
    return all;
  }

 private:
  struct Peer {
    bool met = false;   // its file holds our number
    bool done = false;  // it has met all, or removed its file since it met us
    std::string data;
    std::string reason;  // why it is not met
  };

  std::string Path(int rank) const { return absl::StrCat(folder_, "/rank-", rank); }
  bool All(bool Peer::*what) const {
    return std::all_of(peers_.begin(), peers_.end(),
                       [what](const Peer& peer) { return peer.*what; });
  }
  bool IsOver() const {
    const auto num_met =
        std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.met; });
    return steady_clock::now() >= deadline_ ||
           (waits_.is_over && waits_.is_over(static_cast<int>(num_met)));
  }
  absl::Status MeetAll() {
    milliseconds pause = kFirstFolderPause;
    bool changed = true;
    while (true) {
      if (changed) {
        const absl::Status status = WriteFile(Path(options_.rank), Encode(card_));
        if (absl::IsAlreadyExists(status)) return Twice();
        MILLRACE_RETURN_IF_ERROR(status);
        written_ = true;
        pause = kFirstFolderPause;
      }
      changed = false;
      for (int rank = 0; rank < options_.size; ++rank) {
        if (rank == options_.rank) continue;
        MILLRACE_ASSIGN_OR_RETURN(const bool news, Look(rank));
        changed |= news;
      }
      MILLRACE_RETURN_IF_ERROR(CheckOwn());
      if (card_.met_all == 0 && All(&Peer::met)) {
        card_.met_all = 1;
        changed = true;
      } else if (card_.met_all != 0 && !changed && All(&Peer::done)) {
        return absl::OkStatus();
      }
      if (changed) continue;
      if (IsOver()) return NeverCame(options_, options_.timeout, Missing());
      MILLRACE_RETURN_IF_ERROR(SleepWatched(options_, pause));
      pause = std::min(pause * 2, kLongestFolderPause);
    }
  }
  // Reads the file of `rank`; true when that changes what ours is to say.
  absl::StatusOr<bool> Look(int rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.done) return false;
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadFile(Path(rank)));
    if (!text) {
      if (peer.met && card_.met_all != 0) {
        peer.done = true;
        return false;
      }
      if (peer.reason.empty()) peer.reason = "no file";
      return false;
    }
    const std::optional<Card> card = Decode(*text);
    if (!card || card->rank != static_cast<uint32_t>(rank)) {
      peer.reason = "its file is not that of a rendezvous";
      return false;
    }
    if (card->job_id != card_.job_id || card->size != card_.size) {
      peer.reason =
          absl::StrCat("its file is of job '", card->job_id, "' of ", card->size, " ranks");
      return false;
    }
    return Take(*card, peer);
  }
  absl::StatusOr<bool> Take(const Card& card, Peer& peer) {
    uint64_t& seen = card_.seen[card.rank];
    const bool news = seen != card.nonce;
    if (news && peer.met) {
      return absl::UnavailableError(absl::StrCat("rendezvous ", options_.address, ": rank ",
                                                 card.rank, " has gone and been started again"));
    }
    seen = card.nonce;
    peer.met = card.seen[card_.rank] == card_.nonce;
    peer.done = peer.met && card.met_all != 0;
    peer.reason = "its file was left by a run that has ended, or it has not read ours";
    if (peer.met) peer.data = card.data;
    return news;
  }
  absl::Status CheckOwn() {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadFile(Path(options_.rank)));
    const std::optional<Card> card = text ? Decode(*text) : std::nullopt;
    if (!card || card->nonce == card_.nonce) return absl::OkStatus();
    return Twice();
  }
  absl::Status Twice() {
    replaced_ = true;
    return absl::AlreadyExistsError(absl::StrCat(
        "rendezvous ", options_.address, ": two processes say that they are rank ", options_.rank));
  }
  std::vector<MissingRank> Missing() const {
    const std::string waits = "it still waits itself";
    std::vector<MissingRank> missing;
    for (int rank = 0; rank < options_.size; ++rank) {
      const Peer& peer = peers_[static_cast<size_t>(rank)];
      if (!peer.met) missing.push_back({rank, peer.reason});
      if (peer.met && !peer.done && card_.met_all != 0) missing.push_back({rank, waits});
    }
    return missing;
  }

  const RendezvousOptions& options_;
  const std::string folder_;
  const Deadline deadline_;
  const RendezvousWaits& waits_;
  Card card_;
  std::vector<Peer> peers_;  // by rank
  bool written_ = false;
  bool replaced_ = false;  // by another process: the file is not ours to remove
};

}  // namespace

absl::StatusOr<std::vector<std::string>> RendezvousInFolder(const RendezvousOptions& options,
                                                            const std::string& folder,
                                                            std::string_view own,
                                                            const RendezvousWaits& waits) {
  return Folder(options, folder, own, waits).Run();
}

}  // namespace millrace::collectives
