#ifndef MILLRACE_READERS_CONTAINER_H_
#define MILLRACE_READERS_CONTAINER_H_

namespace millrace::readers {

// How records lie in a shard (readers/FORMAT.md). Index files hold the numbers.
enum class ContainerKind { kTfRecord = 0 };

struct ContainerOptions {
  ContainerKind kind = ContainerKind::kTfRecord;
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_H_
