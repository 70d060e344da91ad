#include "cli/doctor/library_places.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temp_folder.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string NoVariable(const char* /*name*/) { return ""; }

void Touch(const std::string& file) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << "";
}

TEST(PlacesOfTest, WheelsComeBeforeTheToolkitAndAnEnvironmentBeforeTheSystem) {
  const TempFolder root;
  const std::string venv = root / "venv";
  const std::string in_venv = venv + "/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
  const std::string in_torch = venv + "/lib/python3.11/site-packages/torch/lib/libnccl.so.2";
  const std::string in_system = root / "usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2";
  const std::string in_toolkit = root / "usr/local/cuda-13.0/lib64/libnccl.so.2";
  for (const std::string& file : {in_toolkit, in_system, in_torch, in_venv}) Touch(file);
  const auto variables = [&venv](const char* name) {
    return std::string(name) == "VIRTUAL_ENV" ? venv : "";
  };
  EXPECT_THAT(PlacesOf("libnccl.so.2", root.path(), variables),
              ElementsAre(in_venv, in_torch, in_system, in_toolkit));
  EXPECT_THAT(PlacesOf("libnccl.so.2", root.path(), &NoVariable),
              ElementsAre(in_system, in_toolkit));
  EXPECT_THAT(PlacesOf("libcudnn.so.9", root.path(), variables), IsEmpty());
}

}  // namespace
}  // namespace millrace::cli::doctor
