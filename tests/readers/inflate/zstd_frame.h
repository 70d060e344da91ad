#ifndef MILLRACE_TESTS_READERS_INFLATE_ZSTD_FRAME_H_
#define MILLRACE_TESTS_READERS_INFLATE_ZSTD_FRAME_H_

#include <zstd.h>

#include <string>
#include <string_view>

namespace millrace::readers {

// One frame of `bytes`; window_log 0: zstd's choice.
inline std::string ZstdFrame(std::string_view bytes, bool checksum = true, int window_log = 0) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return out;
}

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_INFLATE_ZSTD_FRAME_H_
