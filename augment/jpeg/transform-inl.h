// The passes of the inverse transform over vectors of 16-bit numbers, one block in each part of 128
// bits. transform.cc includes this file once for each set of instructions, each time in a namespace
// of its own, and defines for it:
//   MILLRACE_VECTOR         the type of a register
//   MILLRACE_VECTOR_TARGET  the attribute of functions for these instructions
//   MM(name)                the register's intrinsic function `name`
#ifndef MILLRACE_VECTOR
#error "defined by the file that includes this one"
#endif

MILLRACE_VECTOR_TARGET inline MILLRACE_VECTOR Pair(int low, int high) {
  return MM(set1_epi32)((high << 16) | (low & 0xFFFF));
}

template <int kShift>
MILLRACE_VECTOR_TARGET inline MILLRACE_VECTOR Descale(MILLRACE_VECTOR low, MILLRACE_VECTOR high) {
  return MM(packs_epi32)(MM(srai_epi32)(low, kShift), MM(srai_epi32)(high, kShift));
}

struct Wide {
  MILLRACE_VECTOR low, high;
};

MILLRACE_VECTOR_TARGET inline Wide Madd(Wide pairs, MILLRACE_VECTOR factors) {
  return {MM(madd_epi16)(pairs.low, factors), MM(madd_epi16)(pairs.high, factors)};
}

MILLRACE_VECTOR_TARGET inline Wide Unpack(MILLRACE_VECTOR a, MILLRACE_VECTOR b) {
  return {MM(unpacklo_epi16)(a, b), MM(unpackhi_epi16)(a, b)};
}

MILLRACE_VECTOR_TARGET inline Wide Add(Wide a, Wide b) {
  return {MM(add_epi32)(a.low, b.low), MM(add_epi32)(a.high, b.high)};
}

MILLRACE_VECTOR_TARGET inline Wide Subtract(Wide a, Wide b) {
  return {MM(sub_epi32)(a.low, b.low), MM(sub_epi32)(a.high, b.high)};
}

// a << kConstBits, and half of what Descale rounds to.
template <int kShift>
MILLRACE_VECTOR_TARGET inline Wide Scale(MILLRACE_VECTOR a) {
  const Wide top = Unpack(MM(set1_epi32)(0), a);
  const MILLRACE_VECTOR round = MM(set1_epi32)(1 << (kShift - 1));
  return {MM(add_epi32)(MM(srai_epi32)(top.low, 16 - kConstBits), round),
          MM(add_epi32)(MM(srai_epi32)(top.high, 16 - kConstBits), round)};
}

template <int kShift>
MILLRACE_VECTOR_TARGET inline void Butterfly(Wide even, Wide odd, MILLRACE_VECTOR* first,
                                             MILLRACE_VECTOR* second) {
  const Wide sum = Add(even, odd), difference = Subtract(even, odd);
  *first = Descale<kShift>(sum.low, sum.high);
  *second = Descale<kShift>(difference.low, difference.high);
}

// One dimension; v[i] holds the i-th of eight samples of eight rows or columns per block.
template <int kShift>
MILLRACE_VECTOR_TARGET inline void Pass(MILLRACE_VECTOR* v) {
  const Wide v26 = Unpack(v[2], v[6]);
  const Wide even3 = Madd(v26, Pair(k0541 + k0765, k0541));
  const Wide even2 = Madd(v26, Pair(k0541, k0541 - k1847));
  const Wide even0 = Scale<kShift>(MM(add_epi16)(v[0], v[4]));
  const Wide even1 = Scale<kShift>(MM(sub_epi16)(v[0], v[4]));
  const Wide z = Unpack(MM(add_epi16)(v[7], v[3]), MM(add_epi16)(v[5], v[1]));
  const Wide y3 = Madd(z, Pair(k1175 - k1961, k1175));
  const Wide y4 = Madd(z, Pair(k1175, k1175 - k0390));
  const Wide v71 = Unpack(v[7], v[1]), v53 = Unpack(v[5], v[3]);
  const Wide odd0 = Add(Madd(v71, Pair(-k0899, k1501 - k0899)), y4);
  const Wide odd1 = Add(Madd(v53, Pair(-k2562, k3072 - k2562)), y3);
  const Wide odd2 = Add(Madd(v53, Pair(k2053 - k2562, -k2562)), y4);
  const Wide odd3 = Add(Madd(v71, Pair(k0298 - k0899, -k0899)), y3);
  Butterfly<kShift>(Add(even0, even3), odd0, &v[0], &v[7]);
  Butterfly<kShift>(Add(even1, even2), odd1, &v[1], &v[6]);
  Butterfly<kShift>(Subtract(even1, even2), odd2, &v[2], &v[5]);
  Butterfly<kShift>(Subtract(even0, even3), odd3, &v[3], &v[4]);
}

MILLRACE_VECTOR_TARGET inline void Transpose(MILLRACE_VECTOR* v) {
  MILLRACE_VECTOR a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = MM(unpacklo_epi16)(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = MM(unpackhi_epi16)(v[2 * i], v[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      b[4 * i + 2 * j] = MM(unpacklo_epi32)(a[4 * i + j], a[4 * i + 2 + j]);
      b[4 * i + 2 * j + 1] = MM(unpackhi_epi32)(a[4 * i + j], a[4 * i + 2 + j]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = MM(unpacklo_epi64)(b[i], b[4 + i]);
    v[2 * i + 1] = MM(unpackhi_epi64)(b[i], b[4 + i]);
  }
}

#undef MILLRACE_VECTOR
#undef MILLRACE_VECTOR_TARGET
#undef MM
