#ifndef MILLRACE_BASE_AFFINITY_H_
#define MILLRACE_BASE_AFFINITY_H_

#include <span>
#include <vector>

namespace millrace {

// The numbers of the processors that this process may use (its main thread's), each once, ordered
// by package, then by core: those that share more lie closer together.
std::vector<int> UsableProcessors();

// Binds the calling thread, and the threads that it starts from now on, to `processors`. False: the
// system refuses.
bool BindThread(std::span<const int> processors);

}  // namespace millrace

#endif  // MILLRACE_BASE_AFFINITY_H_
