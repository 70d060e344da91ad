#include "collectives/mpi/world.h"

#include <numeric>

#include "base/status.h"

namespace millrace::collectives {
namespace {

absl::StatusOr<Place> PlaceIn(MPI_Comm comm) {
  Place place;
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Comm_rank(comm, &place.rank), "MPI_Comm_rank"));
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Comm_size(comm, &place.size), "MPI_Comm_size"));
  return place;
}

}  // namespace

absl::StatusOr<std::shared_ptr<MpiWorld>> MpiWorld::Make(std::shared_ptr<MpiRuntime> runtime) {
  MPI_Comm comm = MPI_COMM_NULL;
  MILLRACE_RETURN_IF_ERROR(CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup"));
  const auto world = std::make_shared<MpiWorld>(std::move(runtime), comm);
  MILLRACE_RETURN_IF_ERROR(
      CheckMpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  MILLRACE_ASSIGN_OR_RETURN(world->place, PlaceIn(comm));
  int* highest_tag = nullptr;
  int found = 0;
  MILLRACE_RETURN_IF_ERROR(
      CheckMpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &highest_tag, &found), "MPI_Comm_get_attr"));
  if (found != 0) world->num_groups = static_cast<uint32_t>(*highest_tag) / kTagsOfGroup;
  MILLRACE_RETURN_IF_ERROR(world->FindHost());
  return world;
}

absl::Status MpiWorld::FindHost() {
  MPI_Comm host = MPI_COMM_NULL;
  MILLRACE_RETURN_IF_ERROR(
      CheckMpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &host),
               "MPI_Comm_split_type"));
  MPI_Group here = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  std::vector<int> ranks(place.size), local(place.size, MPI_UNDEFINED);
  std::iota(ranks.begin(), ranks.end(), 0);
  absl::Status status = CheckMpi(MPI_Comm_group(host, &here), "MPI_Comm_group");
  if (status.ok()) status = CheckMpi(MPI_Comm_group(comm, &all), "MPI_Comm_group");
  if (status.ok()) {
    status = CheckMpi(MPI_Group_translate_ranks(all, place.size, ranks.data(), here, local.data()),
                      "MPI_Group_translate_ranks");
  }
  for (MPI_Group* const group : {&here, &all}) {
    if (*group != MPI_GROUP_NULL) MPI_Group_free(group);
  }
  const absl::Status freed = CheckMpi(MPI_Comm_free(&host), "MPI_Comm_free");
  for (const int rank : local) on_host.push_back(rank != MPI_UNDEFINED);
  return status.ok() ? freed : status;
}

}  // namespace millrace::collectives
