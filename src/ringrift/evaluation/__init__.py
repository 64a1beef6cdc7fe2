"""Pure statistics: when is a model really stronger?"""
