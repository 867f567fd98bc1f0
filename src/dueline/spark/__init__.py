"""The delivery pipeline: the only package that imports pyspark.

Every delayed message travels from the delay log to its topic through a Spark Structured Streaming
query. This package has the data source and sink of that query, and what is needed to start Spark.
"""
