#ifndef MILLRACE_READERS_FILE_START_THREADS_H_
#define MILLRACE_READERS_FILE_START_THREADS_H_

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace millrace::readers {

// Starts `count` threads that run `body`, or as many as the system has to give: fewer threads do
// the same work more slowly, while an exception would end the process at the first joinable one.
template <typename Body>
std::vector<std::jthread> StartThreads(size_t count, Body body) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(body);
  } catch (const std::system_error&) {  // EAGAIN, of std::jthread only
  }
  return threads;
}

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_START_THREADS_H_
