#include "collectives/launcher.h"

#include <map>

#include "base/status.h"
#include "gmock/gmock.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string, std::less<>>;

absl::StatusOr<Launcher> Detect(const Environment& environment) {
  return DetectLauncher([&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

struct Found {
  std::string name;
  Environment environment;
  LauncherKind kind;
  int rank;
  int size;
  int local_size;
  std::string source;
};

class DetectsLauncher : public testing::TestWithParam<Found> {};

TEST_P(DetectsLauncher, FromItsVariables) {
  const Found& expected = GetParam();
  const absl::StatusOr<Launcher> launcher = Detect(expected.environment);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  EXPECT_EQ(launcher->kind, expected.kind);
  EXPECT_EQ(launcher->rank, expected.rank);
  EXPECT_EQ(launcher->size, expected.size);
  EXPECT_EQ(launcher->local_size, expected.local_size);
  EXPECT_EQ(launcher->source, expected.source);
}

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_RANK", "3"}};
const Environment kSrun = {{"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "8"},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_PROCID", "5"}};

Environment With(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment.insert_or_assign(name, value);
  return environment;
}

INSTANTIATE_TEST_SUITE_P(
    Table, DetectsLauncher,
    testing::Values(
        Found{"Nothing", {}, LauncherKind::kNone, 0, 1, 0, "no launcher variables"},
        Found{"OpenMpi", kOpenMpi, LauncherKind::kOpenMpi, 3, 4, 2, "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiInsideSrun", With(kOpenMpi, kSrun), LauncherKind::kOpenMpi, 3, 4, 2,
              "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiBesidePmiOfOne", With(kOpenMpi, {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}),
              LauncherKind::kOpenMpi, 3, 4, 2, "OMPI_COMM_WORLD_SIZE=4"},
        Found{"OpenMpiAlone",
              {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
              LauncherKind::kOpenMpi,
              0,
              1,
              0,
              "OMPI_COMM_WORLD_SIZE=1"},
        Found{"Pmi",
              {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}},
              LauncherKind::kPmi,
              1,
              2,
              2,
              "PMI_SIZE=2"},
        Found{"Pmix", {{"PMIX_RANK", "1"}}, LauncherKind::kPmix, 1, 0, 0, "PMIX_RANK=1"},
        Found{"PmixUnderSrun", With(kSrun, {{"PMIX_RANK", "5"}}), LauncherKind::kPmix, 5, 8, 0,
              "SLURM_STEP_NUM_TASKS=8"},
        Found{"Srun", kSrun, LauncherKind::kSlurm, 5, 8, 0, "SLURM_STEP_NUM_TASKS=8"},
        Found{"OldSrun",
              {{"SLURM_STEPID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}},
              LauncherKind::kSlurm,
              1,
              2,
              0,
              "SLURM_NTASKS=2"},
        Found{"SallocShell",
              {{"SLURM_NTASKS", "4"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"BatchScript",
              {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"InteractiveStep",
              {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
              LauncherKind::kNone,
              0,
              1,
              0,
              "no launcher variables"},
        Found{"BadLocalSizeIsOnlyAHint", With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "?"}}),
              LauncherKind::kOpenMpi, 3, 4, 0, "OMPI_COMM_WORLD_SIZE=4"}),
    [](const auto& param) { return param.param.name; });

struct Refused {
  std::string name;
  Environment environment;
  std::string part;
};

class RefusesLauncher : public testing::TestWithParam<Refused> {};

TEST_P(RefusesLauncher, NamingTheVariable) {
  const absl::Status status = Detect(GetParam().environment).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr(GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusesLauncher,
    testing::Values(
        Refused{"Word", With(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "four"}}),
                "OMPI_COMM_WORLD_SIZE='four'"},
        Refused{"Negative", With(kSrun, {{"SLURM_PROCID", "-1"}}), "SLURM_PROCID='-1'"},
        Refused{"RankBeyondSize", With(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}),
                "OMPI_COMM_WORLD_RANK=4"},
        Refused{"SizeZero", {{"PMI_SIZE", "0"}, {"PMI_RANK", "0"}}, "PMI_SIZE=0"},
        Refused{"SizeWithoutRank", {{"OMPI_COMM_WORLD_SIZE", "2"}}, "OMPI_COMM_WORLD_RANK is not"},
        Refused{"MpirunInsideEveryTask", With(kOpenMpi, {{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}),
                "PMI_SIZE=2"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::collectives
