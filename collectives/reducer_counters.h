#ifndef MILLRACE_COLLECTIVES_REDUCER_COUNTERS_H_
#define MILLRACE_COLLECTIVES_REDUCER_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::collectives {

// The work of a reducer on this rank since it was made, in whole steps; a step counts once its
// Finish has returned OK. Seconds are of this host's monotonic clock.
struct ReducerCounters {
  struct Bucket {
    int64_t bytes = 0;  // size of the gradients in the bucket; the same for every algorithm
    // The time of the reduction: from the moment when all ranks of the host had filled the bucket
    // (and the reducer had come to it) until this rank had its part of the sums. It includes
    // waiting for other hosts; 0 on a rank that sums nothing. Over NCCL it lasts from putting the
    // sum on the stream until Finish found it ended, so earlier work on the stream counts too,
    // backward's for instance.
    double seconds = 0;
    // The caller's time that a step without communication would not have taken: waiting in Finish
    // for this bucket's sums, and reducing it in MarkReady.
    double exposed_seconds = 0;
  };

  int64_t steps = 0;
  std::vector<Bucket> buckets;  // in plan order, of all steps
  double gather_seconds = 0;    // in GatherShards: exposed, in no bucket

  // Values of the last step.
  double last_finish_seconds = 0;  // how long Finish took
  // The rank of the communicator that was last to fill the bucket that this rank waited for
  // longest. -1: no rank of this host was awaited; always over NCCL, which does not name the rank
  // that it waits for. With a reducing thread, backward may have hidden that wait if there are
  // several hosts or the gradients are in the caller's memory.
  int last_awaited = -1;

  // Adds the steps of another reducer of the same plan; the values of the last step stay.
  void AddSteps(const ReducerCounters& other) {
    steps += other.steps;
    gather_seconds += other.gather_seconds;
    if (buckets.size() < other.buckets.size()) buckets.resize(other.buckets.size());
    for (size_t i = 0; i < other.buckets.size(); ++i) {
      buckets[i].bytes += other.buckets[i].bytes;
      buckets[i].seconds += other.buckets[i].seconds;
      buckets[i].exposed_seconds += other.buckets[i].exposed_seconds;
    }
  }
  // The sum over all buckets and GatherShards.
  Bucket total() const {
    Bucket sum;
    sum.seconds = sum.exposed_seconds = gather_seconds;
    for (const Bucket& bucket : buckets) {
      sum.bytes += bucket.bytes;
      sum.seconds += bucket.seconds;
      sum.exposed_seconds += bucket.exposed_seconds;
    }
    return sum;
  }
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_REDUCER_COUNTERS_H_
