#include "cli/flags/compression.h"

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

void AddCompressionFlag(Command& command, readers::Compression& compression,
                        const std::string& name, const std::string& about) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : kCompressions) words.push_back(word);
  command
      .AddWord(
          name, [&compression](const std::string& word) { compression = kCompressions.at(word); },
          about)
      .OneOf(words);
}

}  // namespace millrace::cli
