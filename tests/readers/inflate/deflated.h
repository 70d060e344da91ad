#ifndef MILLRACE_TESTS_READERS_INFLATE_DEFLATED_H_
#define MILLRACE_TESTS_READERS_INFLATE_DEFLATED_H_

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>

// Compressed streams, made and read by zlib.

namespace millrace::readers {

enum class Wrapper { kGzip, kZlib };

inline std::string Deflated(std::string_view bytes, Wrapper wrapper, int level = 6) {
  z_stream stream = {};
  const int bits = wrapper == Wrapper::kGzip ? MAX_WBITS + 16 : MAX_WBITS;
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Inflated(std::string bytes) {  // gzip or zlib, told apart by zlib
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 32), Z_OK);
  std::string out(16 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_INFLATE_DEFLATED_H_
