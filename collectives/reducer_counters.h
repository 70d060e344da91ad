#ifndef MILLRACE_COLLECTIVES_REDUCER_COUNTERS_H_
#define MILLRACE_COLLECTIVES_REDUCER_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::collectives {

// What a reducer has done on this rank since it was made, in whole steps; a step counts once its
// Finish has returned OK. Seconds are of this host's monotonic clock.
struct ReducerCounters {
  struct Bucket {
    int64_t bytes = 0;  // of gradients, as they lie in the bucket; the same for every algorithm
    // From the moment when all ranks of the host had filled the bucket (and the reducer had come to
    // it) until this rank had its part of the sums: summing, exchanging with other hosts and
    // waiting for those. 0 on a rank that sums nothing. Over NCCL from when the sum was put on the
    // stream until Finish came to it and found it ended: what is on the stream before it counts
    // too, and so may backward.
    double seconds = 0;
    // Of the caller's thread, that a step without communication would not have taken: inside
    // Finish, until this bucket's sums were there, and what MarkReady spent on reducing it.
    double exposed_seconds = 0;
  };

  int64_t steps = 0;
  std::vector<Bucket> buckets;  // in plan order, of all steps
  double gather_seconds = 0;    // in GatherShards: exposed, in no bucket

  // Of the last step.
  double last_finish_seconds = 0;  // how long Finish took
  // The rank of the communicator that was ready last with the bucket that this rank waited for
  // longest; -1: nobody of this host was awaited, and always over NCCL, which does not say for whom
  // it waits. With a thread that reduces, backward may have hidden that wait where there are
  // several hosts or gradients in the caller's memory.
  int last_awaited = -1;

  // Adds the steps of another reducer of the same plan; what is of the last step stays.
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
  // Over all buckets, and GatherShards.
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
