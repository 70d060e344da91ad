// One mapping per host. The lowest rank of the host makes objects with a random name, all open and
// map them, and as soon as all have, the names are gone: from then on the memory ends with the last
// process that maps it, however that ends. Should a rank end before, the others take the names
// away: they know them before there is an object. Each rank reserves the pages of its own copy with
// posix_fallocate, which fails where /dev/shm is too small: without it the first store to a page
// that is not there would be a SIGBUS in the middle of a step. The kernel locks the object for so
// long, and ranks that share one reserve one after the other: two copies of 102 MB took 79 ms in
// one object and 43 in two.

#include "collectives/host/host.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/peer_lost.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::collectives {
namespace {

// Of this thread. tmpfs of some kernels reserves nothing when a signal comes, as a profiler's
// do all the time.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before_);  // fails for a wrong first argument alone
  }
  ~SignalsBlocked() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// So many ranks reserve at once; each rank maps all objects.
constexpr int kMaxObjects = 8;

size_t AlignmentOf(size_t copy_bytes) { return copy_bytes >= kHugePage ? kHugePage : kPage; }

// The objects' name, which the host's lowest rank chooses.
struct Invitation {
  int64_t pid = 0;  // for people who look into /dev/shm
  uint64_t name[2] = {0, 0};
};

}  // namespace

uint64_t HostIdentity() {
  std::string boot_id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  struct stat folder = {};
  if (!std::getline(file, boot_id) || boot_id.empty() || stat("/dev/shm", &folder) != 0) return 0;
  const std::string identity = absl::StrCat(boot_id, " ", folder.st_dev, " ", folder.st_ino);
  return std::max<uint64_t>(1, XXH3_64bits(identity.data(), identity.size()));
}

SharedHost::SharedHost(int rank, int size, size_t copy_bytes)
    : rank_(rank),
      size_(size),
      copy_stride_(RoundUp(std::max<size_t>(copy_bytes, 1), AlignmentOf(copy_bytes))),
      boards_bytes_(
          RoundUp(sizeof(RankBoard) * static_cast<size_t>(size), AlignmentOf(copy_bytes))) {}

SharedHost::~SharedHost() {
  Leave(absl::UnavailableError(""));
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

void SharedHost::Leave(const absl::Status& reason) {
  if (!agreed_) return;  // the pages of the boards need not be there
  RankBoard& own = board(rank_);
  if (own.gone.load(std::memory_order_relaxed) != 0) return;
  const PeerLost lost = PeerLostOf(reason).value_or(PeerLost{.rank = -1});
  own.lost_rank = lost.rank;
  own.lost_bucket = lost.bucket;
  own.lost_step = lost.step;
  own.lost_phase = static_cast<uint32_t>(lost.phase);
  const size_t length = std::min(reason.message().size(), own.why.size() - 1);
  std::copy_n(reason.message().begin(), length, own.why.begin());
  own.why[length] = '\0';
  own.gone.store(1, std::memory_order_release);
  Wake(own.published);
  Wake(own.done);
  Wake(own.gathered);
}

absl::Status SharedHost::LeftBecause(int rank) const {
  const RankBoard& other = board(rank);
  if (other.gone.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  const std::string why(other.why.data(), strnlen(other.why.data(), other.why.size()));
  absl::Status status = absl::UnavailableError(
      why.empty() ? absl::StrCat("rank ", rank, " of this host has left the reducer") : why);
  const bool known =
      other.lost_rank >= 0 && other.lost_phase <= static_cast<uint32_t>(Phase::kEnded);
  if (known) {
    AddPeerLost(status, {other.lost_rank, other.lost_step, other.lost_bucket,
                         static_cast<Phase>(other.lost_phase)});
  }
  return status;
}

RankBoard& SharedHost::board(int rank) const { return reinterpret_cast<RankBoard*>(memory_)[rank]; }

std::byte* SharedHost::copy(int rank) const { return memory_ + CopyBegin(rank); }

// The steps of Make.
class SharedHostMaker {
 public:
  SharedHostMaker(Communicator& local, size_t copy_bytes, const std::string& folder)
      : local_(local),
        folder_(folder),
        copies_per_object_((local.size() + kMaxObjects - 1) / kMaxObjects),
        host_(new SharedHost(local.rank(), local.size(), copy_bytes)) {}
  ~SharedHostMaker() {
    if (!invited_) return;
    // By all, for any may be the only one left.
    for (int object = 0; object < num_objects(); ++object) unlink(Path(object).c_str());
  }

  absl::StatusOr<SharedHostResult> Make() {
    if (local_.rank() == 0) Invite();
    MILLRACE_RETURN_IF_ERROR(
        local_.Broadcast({&invitation_, DType::kU8, Shape{sizeof(Invitation)}}, 0));
    invited_ = true;
    int64_t own = local_.rank() == 0 ? Create() : 0;
    MILLRACE_RETURN_IF_ERROR(local_.Broadcast({&own, DType::kI64, Shape{1}}, 0));
    if (own == 0) own = Join();
    std::vector<int64_t> all(static_cast<size_t>(local_.size()));
    MILLRACE_RETURN_IF_ERROR(local_.AllGather({&own, DType::kI64, Shape{1}},
                                              {all.data(), DType::kI64, Shape{local_.size()}}));
    const auto failed = std::find_if(all.begin(), all.end(), [](int64_t e) { return e != 0; });
    SharedHostResult result;
    if (failed == all.end()) {
      host_->agreed_ = true;
      result.host = std::move(host_);
    } else {
      result.refused =
          absl::StrCat(folder_, ": ", host_->total_bytes(), " bytes for ", local_.size(),
                       " ranks: ", std::strerror(static_cast<int>(*failed)));
    }
    return result;
  }

  // Private memory in the place of Join.
  static std::unique_ptr<SharedHost> Alone(size_t copy_bytes) {
    std::unique_ptr<SharedHost> host(new SharedHost(0, 1, copy_bytes));
    if (TakeAddresses(*host) != 0) return nullptr;
    if (Map(*host, 0, host->total_bytes(), MAP_PRIVATE | MAP_ANONYMOUS, -1) != 0) return nullptr;
    // A network that copies from or registers this memory asks for every page (Open MPI between two
    // processes: 9 ms instead of 22 for 102 MB). Only a wish: where there are none, small pages do.
    if (copy_bytes >= kHugePage) madvise(host->memory_, host->total_bytes(), MADV_HUGEPAGE);
    return host;
  }

 private:
  int num_objects() const { return (local_.size() + copies_per_object_ - 1) / copies_per_object_; }

  // Where an object begins in the mapping, or the one before ends. The first has the boards too.
  size_t ObjectBegin(int object) const {
    const int first = std::min(object * copies_per_object_, local_.size());
    return object == 0 ? 0 : host_->CopyBegin(first);
  }

  size_t ObjectBytes(int object) const { return ObjectBegin(object + 1) - ObjectBegin(object); }

  std::string Path(int object) const {
    return absl::StrFormat("%s/millrace-%d-%016x%016x-%d", folder_, invitation_.pid,
                           invitation_.name[0], invitation_.name[1], object);
  }

  void Invite() {
    invitation_.pid = getpid();
    std::random_device random;
    for (uint64_t& half : invitation_.name) half = uint64_t{random()} << 32 | random();
  }

  // Each step returns 0 or errno.
  int Create() const {
    int error = 0;
    for (int object = 0; object < num_objects() && error == 0; ++object) {
      error = InObject(object, O_CREAT | O_EXCL, [&](int fd) {
        return ftruncate(fd, static_cast<off_t>(ObjectBytes(object))) == 0 ? 0 : errno;
      });
    }
    return error;
  }

  int Join() const {
    const int own = local_.rank() / copies_per_object_;
    int error = TakeAddresses(*host_);
    for (int object = 0; object < num_objects() && error == 0; ++object) {
      error = InObject(object, 0, [&](int fd) {
        const int reserved = object == own ? ReserveOwn(fd, ObjectBegin(object)) : 0;
        if (reserved != 0) return reserved;
        return Map(*host_, ObjectBegin(object), ObjectBytes(object), MAP_SHARED, fd);
      });
    }
    return error;
  }

  // Does as shm_open, below a folder of choice, and closes the object after `use`, which returns 0
  // or errno too.
  template <typename Use>
  int InObject(int object, int flags, const Use& use) const {
    const UniqueFd fd(open(Path(object).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
    return fd.valid() ? use(fd.get()) : errno;
  }

  int ReserveOwn(int fd, size_t object_begin) const {
    const int rank = local_.rank();
    const size_t begin = rank == 0 ? 0 : host_->CopyBegin(rank);
    const SignalsBlocked blocked;
    return posix_fallocate(fd, static_cast<off_t>(begin - object_begin),
                           static_cast<off_t>(host_->CopyBegin(rank + 1) - begin));
  }

  // With room to align.
  static int TakeAddresses(SharedHost& host) {
    const size_t alignment = AlignmentOf(host.copy_stride_);
    const size_t room = host.total_bytes() + alignment;
    void* const reserved =
        mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return errno;
    host.mapped_ = reserved;
    host.mapped_bytes_ = room;
    host.memory_ =
        reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<uintptr_t>(reserved), alignment));
    return 0;
  }

  // Puts memory over a part of the addresses.
  static int Map(const SharedHost& host, size_t begin, size_t bytes, int flags, int fd) {
    void* const mapped =
        mmap(host.memory_ + begin, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    return mapped == MAP_FAILED ? errno : 0;
  }

  Communicator& local_;
  const std::string folder_;
  const int copies_per_object_;
  std::unique_ptr<SharedHost> host_;
  Invitation invitation_;
  bool invited_ = false;
};

absl::StatusOr<SharedHostResult> SharedHost::Make(Communicator& local, size_t copy_bytes,
                                                  const std::string& folder) {
  return SharedHostMaker(local, copy_bytes, folder).Make();
}

std::unique_ptr<SharedHost> SharedHost::MakePrivate(size_t copy_bytes) {
  return SharedHostMaker::Alone(copy_bytes);
}

}  // namespace millrace::collectives
