// bench_make_text FILE RECORD_BYTES MEMBER_BYTES MEMBERS: a gzip TFRecord file of lines of words,
// as frequent as in a language. One member is made, the others are copies of it: what takes time is
// deflating, and a copy lies too far back to be found.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "readers/record_writer.h"

namespace {

std::vector<std::string> MakeWords(std::mt19937_64& random) {
  std::vector<std::string> words(20'000);
  for (std::string& word : words) {
    for (size_t letters = 2 + random() % 9; letters > 0; --letters) {
      word.push_back(static_cast<char>('a' + random() % 26));
    }
  }
  return words;
}

absl::Status WriteMember(const std::string& path, size_t record_bytes, uint64_t member_bytes) {
  std::mt19937_64 random(1);
  const std::vector<std::string> words = MakeWords(random);
  std::vector<double> weights;
  for (size_t i = 0; i < words.size(); ++i) weights.push_back(1.0 / static_cast<double>(i + 1));
  std::discrete_distribution<size_t> zipf(weights.begin(), weights.end());
  auto writer = millrace::readers::TfRecordWriter::Open(
      path, {.compression = millrace::readers::Compression::kGzip, .compression_level = 6});
  if (!writer.ok()) return writer.status();
  while ((*writer)->num_bytes() < member_bytes) {
    std::string line;
    while (line.size() < record_bytes) line += words[zipf(random)] + " ";
    line.resize(record_bytes);
    if (const absl::Status status = (*writer)->Write(line); !status.ok()) return status;
  }
  return (*writer)->Close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s FILE RECORD_BYTES MEMBER_BYTES MEMBERS\n", argv[0]);
    return 2;
  }
  const std::string member = std::string(argv[1]) + ".member";
  const absl::Status status =
      WriteMember(member, std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::ofstream out(argv[1], std::ios::binary);
  for (int i = std::atoi(argv[4]); i > 0; --i) {
    std::ifstream in(member, std::ios::binary);
    out << in.rdbuf();
  }
  std::filesystem::remove(member);
  return out.flush().good() ? 0 : 1;
}
