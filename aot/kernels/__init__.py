"""Kernel builders: one module per family, and the small objects that families share.

| part of a kernel | families | shared |
|---|---|---|
| the whole, in order | `forward`, `dgrad`, `wgrad` (`wgrad_direct`, `wgrad_stream_k`) | `gemm`, `tile`, `place` |
| where K tiles are | `dgrad_streams`, `dgrad_record`, `wgrad_streams` | `streams`, `rows`, `rowsets`, `row_table` |
| loads to LDS | `wgrad_loaders` | `loaders`, `k_rows`, `chunks`, `swizzle` |
| the K loop | | `mainloop`, `fragments`, `k_outer_fragments` |
| results | `dgrad_output`, `wgrad_output` | `results`, `epilogue` |
| what registers hold | `dgrad_budget`, `wgrad_budget` | `budget` |
| arguments | `dgrad_arguments`, `dgrad_table`, `wgrad_arguments`, `forward_values` | `arguments`, `limits` |
| arithmetic | | `magic`, `counter` |

`wgrad_reduce` and `wgrad_fix_up` (with `wgrad_second_step`) are no GEMMs: they add up what backward weights leaves.
"""
