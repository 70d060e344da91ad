#ifndef MILLRACE_TESTS_ODD_IMAGES_H_
#define MILLRACE_TESTS_ODD_IMAGES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/temp_files.h"

// The files of tests/fixtures/odd and what Pillow makes of them (scripts/make_odd_images.py).

namespace millrace {

struct PillowImage {
  int64_t width = 0;
  int64_t height = 0;
  uint32_t crc32 = 0;  // of the RGB pixels
  friend bool operator==(const PillowImage&, const PillowImage&) = default;
};

struct OddImage {
  std::string name;
  std::string encoded;
  PillowImage stored;
  PillowImage upright;
};

struct OddImages {
  std::vector<OddImage> images;
  std::map<int, std::string> exif;  // by orientation, with its header
};

inline OddImages ReadOddImages() {
  OddImages odd;
  const std::string folder =
      std::string(std::getenv("MILLRACE_SOURCE_DIR")) + "/tests/fixtures/odd/";
  std::istringstream table(ReadFile(folder + "table.txt"));
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    OddImage image;
    words >> image.name;
    if (image.name == "exif") {
      int orientation = 0;
      std::string hex;
      words >> orientation >> hex;
      std::string& bytes = odd.exif[orientation];
      for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      }
      continue;
    }
    for (PillowImage* const to : {&image.stored, &image.upright}) {
      words >> to->width >> to->height >> to->crc32;
    }
    EXPECT_FALSE(words.fail()) << line;
    image.encoded = ReadFile(folder + image.name);
    odd.images.push_back(std::move(image));
  }
  EXPECT_EQ(odd.images.size(), 26u);
  EXPECT_EQ(odd.exif.size(), 7u);
  return odd;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_ODD_IMAGES_H_
