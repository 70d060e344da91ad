#ifndef MILLRACE_READERS_FILE_CANCELLABLE_FILE_H_
#define MILLRACE_READERS_FILE_CANCELLABLE_FILE_H_

#include <memory>

#include "base/cancels.h"
#include "base/io.h"

namespace millrace::readers {

// Returns `file` with reads that are CANCELLED once `cancels` returns true: work that goes through
// a file ends there, whatever it looks for. `file` itself if `cancels` is empty.
std::shared_ptr<const RandomAccessFile> MakeCancellable(
    std::shared_ptr<const RandomAccessFile> file, const Cancels& cancels);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_FILE_CANCELLABLE_FILE_H_
