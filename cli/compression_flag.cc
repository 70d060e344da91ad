#include "cli/compression_flag.h"

#include <map>
#include <string>
#include <vector>

namespace millrace::cli {
namespace {

const std::map<std::string, readers::Compression> kCompressions = {
    {"none", readers::Compression::kNone},
    {"gzip", readers::Compression::kGzip},
    {"zlib", readers::Compression::kZlib},
    {"zstd", readers::Compression::kZstd}};

}  // namespace

void AddCompressionFlag(Command& command, readers::Compression& compression) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : kCompressions) words.push_back(word);
  command
      .AddWord(
          "--compression",
          [&compression](const std::string& word) { compression = kCompressions.at(word); },
          "none, gzip, zlib or zstd")
      .OneOf(words);
}

}  // namespace millrace::cli
